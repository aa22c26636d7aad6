"""Curves of exact NashConv by environment step: PPO in self-play with entropy, and PSRO with learned responses."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.league.population_curves import nash_conv_curve
from league.exact import GameTree, tabulate
from league.game import Game
from league.psro.config import PSROConfig
from league.rollout.best_response import BestResponseTraining
from league.rollout.matchup_distribution import MatchupDistribution
from league.storage import presets
from league.storage.run_config import training

__all__ = ["ahead", "self_play_curves"]

POINTS = 40
"""Number of snapshots of a PPO run; its average policy is their mean."""


def self_play_curves(
    env_id: str, iterations: int, entropies: Sequence[float], seeds: int, claimed: float
) -> dict[str, Any]:
    """Measure NashConv by environment step, and check whether PPO is ahead of PSRO at the end.

    Args:
        env_id: A small two-player zero-sum game with a role per seat.
        iterations: Iterations of PSRO; PPO has as many environment steps as all its responses together.
        entropies: Constant entropy coefficients of PPO.
        seeds: Number of runs of every method.
        claimed: Entropy coefficient of the claim.
    """
    game = Game.of(env_id)
    steps = len(game.roles) * training(game, "cpu", {}).total_steps  # of an iteration of PSRO
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in range(seeds):
        config = {**presets.psro_preset(env_id), "iterations": iterations, "seed": seed}
        found = nash_conv_curve(env_id, PSROConfig(**config))["curve"]
        curve = [[number * steps, nash_conv] for number, (_, nash_conv) in enumerate(found)]
        runs.setdefault("PSRO", []).append({"curve": curve, "seconds": found[-1][0]})
        for entropy in entropies:
            for name, run in _self_play(game, iterations * steps, entropy, seed).items():
                runs.setdefault(f"PPO, entropy {entropy:g}, {name}", []).append(run)
        print(env_id, seed, {name: each[-1]["curve"][-1][1] for name, each in runs.items()}, flush=True)
    final = {name: [run["curve"][-1][1] for run in each] for name, each in runs.items()}
    names = {which: f"PPO, entropy {claimed:g}, {which}" for which in ("last policy", "average policy")}
    met = {f"{which} below PSRO": ahead(final[name], final["PSRO"]) for which, name in names.items()}
    return {"env_id": env_id, "by_step": runs, "met": met}


def ahead(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether every NashConv of the first method is below every one of the second."""
    return max(first) < min(second)


def _self_play(game: Game, steps: int, entropy: float, seed: int) -> dict[str, dict[str, Any]]:
    """Return the curves of the last and of the average policy of PPO in self-play.

    The average samples one of the snapshots so far at the start of every episode.
    """
    tree, began = GameTree.of(game), time.perf_counter()
    coefficient = {"learner.entropy_coef": entropy, "learner.entropy_coef_final": entropy}
    config = dataclasses.replace(training(game, "cpu", {"total_steps": steps, **coefficient}), seed=seed)
    config.prepare()
    snapshots: list[list[torch.Tensor]] = [[] for _ in game.seats]
    start = tree.nash_conv([tree.uniform(seat) for seat in range(len(game.seats))])
    curves: dict[str, list[list[float]]] = {"last policy": [[0, start]], "average policy": [[0, start]]}
    with config.in_force():
        learners = BestResponseTraining(game, MatchupDistribution.self_play(game), {}, config)
        for point in range(1, POINTS + 1):
            while learners.steps * POINTS < point * config.total_steps:
                learners.iterate()
            for seat, each in enumerate(game.seats):
                snapshots[seat].append(tabulate(learners.learner(each.role).policy(), tree, seat))
            weights = torch.full((point,), 1 / point, dtype=torch.float64)
            mixed = [tree.mix(tables, weights, seat) for seat, tables in enumerate(snapshots)]
            curves["last policy"].append([learners.steps, tree.nash_conv([tables[-1] for tables in snapshots])])
            curves["average policy"].append([learners.steps, tree.nash_conv(mixed)])
    seconds = time.perf_counter() - began
    return {name: {"curve": curve, "seconds": seconds} for name, curve in curves.items()}
