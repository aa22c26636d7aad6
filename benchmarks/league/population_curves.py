"""Curves of exact NashConv by iteration and second: variants of PSRO with exact best responses and payoffs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages.population_curves_section import first_below, largest_rise
from league.exact import GameTree, solve_restricted_game
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run

__all__ = ["KUHN", "LEDUC", "nash_conv_curve", "population_curves", "verdicts"]

PSRO_NAME, ANYTIME, SELF_PLAY, XDO = "PSRO", "anytime PSRO", "SP-PSRO", "XDO"
"""Names of the methods that the claims are about."""
KUHN: dict[str, Any] = {
    "env_id": "KuhnPoker-v0",
    "methods": {
        PSRO_NAME: {"variant": "standard", "iterations": 15},
        ANYTIME: {"variant": "anytime", "iterations": 15},
        SELF_PLAY: {"variant": "self_play", "iterations": 15, "num_segments": 400},
        XDO: {"variant": "xdo", "iterations": 15, "restricted_tolerance": 1e-3},
    },
    "below": 0.1,
    "factor": 1.5,
    "few": 5,
}
"""Arguments of `population_curves` for Kuhn poker."""
LEDUC: dict[str, Any] = {
    "env_id": "LeducPoker-v0",
    "methods": {
        PSRO_NAME: {"variant": "standard", "iterations": 300},
        ANYTIME: {"variant": "anytime", "iterations": 50},
        SELF_PLAY: {"variant": "self_play", "iterations": 20, "num_segments": 400},
        XDO: {"variant": "xdo", "iterations": 10, "restricted_tolerance": 1e-3},
    },
    "below": 0.1,
    "factor": 10.0,
    "few": 5,
}
"""Arguments of `population_curves` for Leduc poker."""
_ROUNDING = 1e-9  # NashConv of an unchanged policy may rise by it


def population_curves(
    env_id: str,
    methods: Mapping[str, Mapping[str, Any]],
    below: float,
    factor: float,
    few: int,
) -> dict[str, Any]:
    """Measure NashConv of populations by iteration, and check the published claims.

    Args:
        env_id: A small two-player zero-sum game.
        methods: Fields of `PSROConfig` by the name of the method; responses and payoffs are exact.
        below: NashConv at which iterations are counted.
        factor: Claimed ratio of the iterations of PSRO to those of XDO until NashConv `below`.
        few: Claimed largest number of iterations of SP-PSRO until NashConv `below`.
    """
    found: dict[str, Any] = {}
    for name, settings in methods.items():
        found[name] = nash_conv_curve(env_id, PSROConfig(oracle="exact", payoff_estimation="exact", **settings))
        print(env_id, name, found[name]["curve"][-1], flush=True)
    tree = GameTree.of(Game.of(env_id))
    tolerance = methods[XDO]["restricted_tolerance"]
    began = time.perf_counter()
    whole = solve_restricted_game(tree, tolerance=tolerance)
    return {
        "env_id": env_id,
        "methods": found,
        "below": below,
        "choices": [int(legal.sum()) for legal in tree.legal],
        "whole_game": {
            "seconds": time.perf_counter() - began,
            "nash_conv": whole.nash_conv,
            "iterations": whole.iterations,
            "value": whole.value,
        },
        "met": verdicts({name: each["curve"] for name, each in found.items()}, below, factor, few),
    }


def nash_conv_curve(env_id: str, config: PSROConfig) -> dict[str, Any]:
    """Run PSRO, and return seconds and NashConv after every iteration; of XDO also the choices of restricted games.

    Args:
        env_id: A game whose tree can be enumerated.
        config: Settings of the run.
    """
    with tempfile.TemporaryDirectory() as folder:
        game = Game.of(env_id)
        began = time.perf_counter()
        with open_run(Path(folder) / "run", game, "psro", config) as store:
            psro, curve = PSRO(store, config), []
            for number in range(config.iterations + 1):
                psro.iterate(number)
                curve.append([time.perf_counter() - began, store.iterations()[number]["nash_conv"]])
            found: dict[str, Any] = {"curve": curve, "seed": config.seed}
            if config.variant == "xdo":
                numbers = range(1, config.iterations + 1)
                found["choices"] = [store.result(f"{number}/restricted")["choices"] for number in numbers]
    return found


def verdicts(curves: Mapping[str, Sequence[Sequence[float]]], below: float, factor: float, few: int) -> dict[str, bool]:
    """Return whether each claim is met by curves of (seconds, NashConv), see `population_curves`."""
    plain, extensive = (first_below(curves[name], below) for name in (PSRO_NAME, XDO))
    if plain is None:
        plain = len(curves[PSRO_NAME])  # at least one more than it has
    quick = first_below(curves[SELF_PLAY], below)
    return {
        "anytime PSRO never rises": largest_rise(curves[ANYTIME]) <= _ROUNDING,
        "PSRO rises": largest_rise(curves[PSRO_NAME]) > _ROUNDING,
        f"PSRO / XDO iterations at least {factor:g}": extensive is not None and plain >= factor * extensive,
        f"SP-PSRO within {few} iterations": quick is not None and quick <= few,
    }
