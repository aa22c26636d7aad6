"""Leagues of rock-paper-scissors that take a second, and `python small_league.py WHICH FOLDER POINTS` to kill them.

It runs WHICH once undisturbed in FOLDER/whole, then POINTS times in FOLDER/0, 1, ..., each killed and resumed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import toy_league

from league.alphastar import AlphaStarLeagueBuilder, preset
from league.baselines import PopulationBasedBuilder, PopulationBasedConfig, SelfPlayBuilder, SelfPlayConfig
from league.builder import LeagueBuilder
from league.executors import Executor
from league.game import Game
from league.league import League, LeagueConfig
from league.player import kept
from league.response import Training
from league.run import opened
from league.store import Store

RPS = Game.of("RockPaperScissors-v0", {"num_steps": 1})
TINY = {
    "num_envs": 4,
    "learner.rollout_length": 4,
    "learner.hidden": [4],
    "learner.epochs": 1,
    "learner.minibatches": 1,
    "learner.learning_rate": 0.05,
}
STEPS = 32


def builder(which: str) -> LeagueBuilder:
    if which == "alphastar":  # the main exploiter begins anew whenever it is frozen, the others every fourth time
        return AlphaStarLeagueBuilder(preset(min_steps=STEPS))
    if which == "pbt":
        perturb = {"learning_rate": 1.5, "gamma": 1.5}
        return PopulationBasedBuilder(PopulationBasedConfig(size=3, ready_steps=STEPS, bottom=0.5, perturb=perturb))
    return SelfPlayBuilder(SelfPlayConfig(which, freeze_every=STEPS))


def league(
    path: Path,
    which: LeagueBuilder | str = "alphastar",
    iterations: int = 3,
    game: Game = RPS,
    steps: int = STEPS,
    episodes: int = 20,
    seed: int = 0,
    max_envs: int = 1024,
    executor: Executor | None = None,
    **train: Any,
) -> League:
    """A league in a folder, begun or gone on with; its store is open."""
    config = LeagueConfig(
        iterations=iterations,
        steps=steps,
        episodes=episodes,
        seed=seed,
        max_envs=max_envs,
        train={key: value for key, value in {**TINY, **train}.items() if value is not None},
    )
    store = opened(path, game, "league", config)
    return League(store, config, builder(which) if isinstance(which, str) else which, executor=executor)


def train(running: League, number: int, *names: str) -> None:
    """Matches of some players alone, as if the league were killed after them."""
    running._measure(number)
    even = running._even(number)
    for name in names:
        running._submit(number, name, running.standing.pools(), even)
    running.coordinator.wait("learn")


def training(running: League, name: str) -> Training:
    """A player's worlds and learner."""
    return kept(running.id)[name]


def records(path: Path) -> dict[str, Any]:
    """All rows of a run and its files, without the time that it took."""
    found = toy_league.dump(path)
    rows = [(number, json.loads(summary)) for number, summary in found["iterations"]]
    return {**found, "iterations": [(number, {**row, "seconds": 0}) for number, row in rows]}


def trained(path: Path) -> dict[str, dict[str, Any]]:
    """What every training of a run gave, by task."""
    with Store.open(path, write=False) as store:
        return {task: store.result(task) for task in store.tasks() if "/train/" in task}


if __name__ == "__main__":
    torch.set_num_threads(1)
    which, folder, points = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])

    def work(path: Path, iterations: int = 3) -> None:
        running = league(path, which, iterations, max_envs=100)  # five cells fill a batch
        running.run()
        running.store.close()

    toy_league.kill(folder, points, work)
