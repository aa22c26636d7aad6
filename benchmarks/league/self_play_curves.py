"""Curves of exact NashConv by environment step: PPO in self-play with entropy, and PSRO with learned responses.

Measures them, and writes their section and figure of docs/league.md.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from benchmarks.hardware.figure_file import save_figure
from benchmarks.hardware.provenance import ROOT
from benchmarks.league.population_curves import nash_conv_curve
from league.exact import GameTree, tabulate
from league.game import Game
from league.psro.config import PSROConfig
from league.rollout.best_response import BestResponseTraining
from league.rollout.matchup_distribution import MatchupDistribution
from league.storage import presets
from league.storage.run_config import training

__all__ = ["ahead", "self_play_curves"]

PICTURE = ROOT / "docs" / "league_self_play_curves.png"
POINTS = 40
"""Number of snapshots of a PPO run; its average policy is their mean."""


def self_play_curves(
    env_id: str, iterations: int, entropies: Sequence[float], seeds: int, claimed: float
) -> dict[str, Any]:
    """Measure NashConv by environment step, and check whether PPO is ahead of PSRO at the end.

    Args:
        env_id: A small two-player zero-sum game with a role per seat.
        iterations: Iterations of PSRO; PPO has the environment steps of all its responses together.
        entropies: Constant entropy coefficients of PPO.
        seeds: Number of runs of every method.
        claimed: Entropy coefficient of the claim.
    """
    game = Game.of(env_id)
    steps = len(game.roles) * training(game, "cpu", {}).total_steps  # of an iteration of PSRO
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in range(seeds):
        config = {**presets.psro_preset(env_id), "iterations": iterations, "seed": seed}
        points = nash_conv_curve(env_id, PSROConfig(**config))["curve"]
        curve = [[number * steps, nash_conv] for number, (_, nash_conv) in enumerate(points)]
        runs.setdefault("PSRO", []).append({"curve": curve, "seconds": points[-1][0]})
        for entropy in entropies:
            for name, run in _self_play(game, iterations * steps, entropy, seed).items():
                runs.setdefault(f"PPO, entropy {entropy:g}, {name}", []).append(run)
        print(env_id, seed, {name: rows[-1]["curve"][-1][1] for name, rows in runs.items()}, flush=True)
    final = {name: [run["curve"][-1][1] for run in rows] for name, rows in runs.items()}
    names = {kind: f"PPO, entropy {claimed:g}, {kind}" for kind in ("last policy", "average policy")}
    met = {f"{kind} below PSRO": ahead(final[name], final["PSRO"]) for kind, name in names.items()}
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
            for seat, entry in enumerate(game.seats):
                snapshots[seat].append(tabulate(learners.learner(entry.role).policy(), tree, seat))
            weights = torch.full((point,), 1 / point, dtype=torch.float64)
            mixed = [tree.mix(tables, weights, seat) for seat, tables in enumerate(snapshots)]
            curves["last policy"].append([learners.steps, tree.nash_conv([tables[-1] for tables in snapshots])])
            curves["average policy"].append([learners.steps, tree.nash_conv(mixed)])
    seconds = time.perf_counter() - began
    return {name: {"curve": curve, "seconds": seconds} for name, curve in curves.items()}


def section(result: Mapping[str, Any]) -> list[str]:
    """Return the text and the table of one game."""
    settings, runs = result["settings"], result["by_step"]
    steps = runs["PSRO"][0]["curve"][-1][0]
    lines = [
        f"{result['env_id']}, {settings['seeds']} seeds, {steps:,} environment steps of each run. NashConv is exact: "
        "networks are tabulated at all information sets. PPO trains both roles in the same worlds, with a constant "
        "entropy coefficient; 0.2 was selected after single runs with 0.05, 0.1 and 0.2. Its average policy samples "
        "one of up to 40 snapshots at the start of every episode. PSRO has the settings of its preset and "
        f"{settings['iterations']} iterations with learned responses of PPO; the simulated episodes of its payoff "
        "table are not counted as steps. A claim is met if the largest NashConv of PPO over seeds is below the "
        "smallest one of PSRO.",
        "",
        "| method | final NashConv, mean | least | largest | minimum of a run, mean | seconds of a run |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, rows in runs.items():
        final = [run["curve"][-1][1] for run in rows]
        lowest = statistics.mean(min(value for _, value in run["curve"]) for run in rows)
        seconds = statistics.mean(run["seconds"] for run in rows)
        numbers = [f"{value:.3f}" for value in (statistics.mean(final), min(final), max(final), lowest)]
        lines.append(f"| {name} | {' | '.join(numbers)} | {seconds:.0f} |")
    return lines


def draw(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw NashConv by environment step, one panel per game and one line per seed.

    Args:
        results: Recorded results by demonstration.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.0 + 3.6 * len(results), 3.0), layout="constrained")
    drawn: dict[str, Any] = {}
    for panel, result in enumerate(results.values(), start=1):
        axes = figure.add_subplot(1, len(results), panel)
        for index, (name, runs) in enumerate(result["by_step"].items()):
            for run in runs:
                steps, values = zip(*run["curve"], strict=True)
                (drawn[name],) = axes.plot([step / 1e6 for step in steps], values, color=f"C{index}", lw=0.9)
        axes.set_yscale("log")
        axes.set_title(result["env_id"], fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    figure.legend(drawn.values(), drawn.keys(), loc="outside right upper", fontsize=7)
    figure.supxlabel("environment steps [million]", fontsize=8)
    figure.supylabel("NashConv", fontsize=8)
    save_figure(figure, PICTURE, 80)
