"""Runs of PSRO for tests, and in separate processes.

`python psro_runs.py FOLDER POINTS` runs each of KINDS undisturbed in FOLDER/KIND/whole, then POINTS times in
FOLDER/KIND/0, 1, ..., each killed at a random point and resumed.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import torch
import toy_league
from always import table_policy

from league.evaluation.tabular_game import TabularGame
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run
from league.storage.run_store import RunStore

RPS = Game.of("RockPaperScissors-v0", {"num_repetitions": 1})

SCRIPT = Path(__file__)
EXACT = {"oracle": "exact", "payoff_estimation": "exact"}
LEDUC = {0: 4.747, 1: 5.206, 2: 5.261, 5: 3.394, 10: 2.348, 20: 1.554, 30: 1.088, 40: 0.872}
"""As `KUHN_UNIFORM`, with three digits."""
TINY = {
    "total_steps": 128,
    "num_envs": 8,
    "learner.rollout_length": 4,
    "learner.hidden_sizes": [8],
    "learner.num_epochs": 1,
    "learner.num_minibatches": 1,
}
QUICK: dict[str, Any] = {"train_overrides": TINY, "episodes_per_matchup": 10, "num_segments": 2}
KINDS: dict[str, dict[str, Any]] = {
    "exact": {"oracle": "exact", "episodes_per_matchup": 10},
    "psro": QUICK,
    "pipeline": {**QUICK, "variant": "pipeline", "pipeline_depth": 2},
    "rectified": {**QUICK, "variant": "rectified"},
    "continue": {**QUICK, "response_init": "resume"},
    "joint": {**QUICK, "response_init": "resume", "joint_steps": 512, "joint_snapshots": 2},
}


def psro(path: Path, game: Game | str = "KuhnPoker-v0", **settings: Any) -> PSRO:
    game = Game.of(game) if isinstance(game, str) else game
    config = PSROConfig(**settings)
    store = open_run(path, game, "psro", config)
    try:
        return PSRO(store, config)
    except BaseException:
        store.close()
        raise


def play(path: Path, game: Game | str = "KuhnPoker-v0", **settings: Any) -> list[dict[str, Any]]:
    run = psro(path, game, **settings)
    with run.store:
        return run.run()


def contents(path: Path) -> dict[str, Any]:
    """Return the contents of a run without its durations."""
    with RunStore.open(path, write=False) as store:
        cells, entries = store.cells(), [entry for pool in store.populations.values() for entry in pool.entries]
        return {
            "policies": [
                (entry.id, entry.role, entry.kind, entry.parent, entry.iteration, entry.sha256) for entry in entries
            ],
            "cells": [
                entry.tolist() for entry in (cells.matchups, cells.count, cells.total, cells.square, cells.score)
            ],
            "iterations": {
                number: {key: value for key, value in row.items() if key != "seconds"}
                for number, row in store.iterations().items()
            },
            "tasks": sorted(store.tasks()),
            "matches": store.matches(),
        }


def pure(action: int):
    """Return a pure policy of one-step rock-paper-scissors."""
    small = TabularGame.of(RPS)
    assert small is not None
    table = torch.nn.functional.one_hot(torch.full((1,), action), 3).double()
    return table_policy(small.tree, table, 0)


def work(kind: str, path: Path, iterations: int = 2) -> None:
    """Run PSRO on Kuhn poker."""
    play(path, Game.of("KuhnPoker-v0", shared=kind == "rectified"), iterations=iterations, **KINDS[kind])


if __name__ == "__main__":
    torch.set_num_threads(1)
    for kind in KINDS:
        toy_league.kill(Path(sys.argv[1], kind), int(sys.argv[2]), functools.partial(work, kind))
