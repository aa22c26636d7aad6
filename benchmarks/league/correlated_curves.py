"""Curves of the gaps of JPSRO with correlated equilibria, in a game of three players.

Measures them, and writes their section of docs/league.md.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.league.population_curves import LEVELS, first_below
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run

__all__ = ["correlated_curves"]

GAPS = {"ce": "ce_gap", "cce": "nash_conv"}
"""Field of the summary with the gap, by meta-solver. The gap of a coarse correlated equilibrium is NashConv of the
joint distribution: the seats deviate before a profile is sampled."""


def correlated_curves(
    env_id: str, env: Mapping[str, Any], methods: Mapping[str, Mapping[str, Any]], below: float
) -> dict[str, Any]:
    """Measure the exact gap of JPSRO by iteration and second.

    Args:
        env_id: A small game.
        env: Arguments of the environment.
        methods: Fields of `PSROConfig` by the name of the method; responses and payoffs are exact.
        below: Gap that every method must reach.
    """
    game, results = Game.of(env_id, env), dict[str, Any]()
    for name, settings in methods.items():
        config = PSROConfig(oracle="exact", payoff_estimation="exact", **settings)
        with (
            tempfile.TemporaryDirectory() as folder,
            open_run(Path(folder) / "run", game, "psro", config) as store,
        ):
            began, curve, run = time.perf_counter(), [], PSRO(store, config)
            for number in range(config.iterations + 1):
                run.iterate(number)
                gap = store.iterations()[number][GAPS[config.meta_solver]]
                curve.append([time.perf_counter() - began, max(gap, 0.0)])
            sizes = store.iterations()[config.iterations]["policies"]
        results[name] = {"curve": curve, "policies": sizes}
        print(env_id, name, curve[-1], sizes, flush=True)
    met = {
        f"{name} reaches {below:g}": first_below(method["curve"], below) is not None for name, method in results.items()
    }
    return {"env_id": env_id, "env": dict(env), "correlated": results, "below": below, "met": met}


def section(result: Mapping[str, Any]) -> list[str]:
    """Return the text and the table of one game."""
    env = ", ".join(f"{key} = {value}" for key, value in result["env"].items())
    levels = (*LEVELS, result["below"])
    lines = [
        f"{result['env_id']} ({env}). Responses, payoffs and gaps are exact. The CE gap is the sum over seats and "
        "recommendations of what a seat gains by a deviation after it knows its recommendation. The CCE gap is the sum "
        "of what seats gain by a deviation before. The meta-solver is the correlated equilibrium of maximum welfare.",
        "",
        "| method | gap at the start | " + " | ".join(f"iterations to {level:g}" for level in levels) + " | last gap | "
        "policies per role | seconds |",
        "| --- |" + " --- |" * (len(levels) + 4),
    ]
    for name, method in result["correlated"].items():
        curve = method["curve"]
        reached = [first_below(curve, level) for level in levels]
        cells = ["not reached" if at is None else str(at) for at in reached]
        sizes = ", ".join(str(size) for size in method["policies"].values())
        seconds, last = curve[-1]
        lines.append(f"| {name} | {curve[0][1]:.4f} | {' | '.join(cells)} | {last:.1g} | {sizes} | {seconds:.1f} |")
    return lines
