"""Curves of the gaps of JPSRO with correlated equilibria, in a game of three players."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.pages.population_curves_section import first_below
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
    game, found = Game.of(env_id, env), dict[str, Any]()
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
        found[name] = {"curve": curve, "policies": sizes}
        print(env_id, name, curve[-1], sizes, flush=True)
    met = {f"{name} reaches {below:g}": first_below(each["curve"], below) is not None for name, each in found.items()}
    return {"env_id": env_id, "env": dict(env), "correlated": found, "below": below, "met": met}
