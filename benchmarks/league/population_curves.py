"""Curves of exact NashConv by iteration and second: variants of PSRO with exact best responses and payoffs.

Measures them, and writes their section and figure of docs/league.md.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.hardware.figure_file import save_figure
from benchmarks.hardware.provenance import ROOT
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
PICTURE = ROOT / "docs" / "league_population_curves.png"
LEVELS = (1.0, 0.3, 0.1, 0.03, 0.01)
"""Values of NashConv whose first iterations the table has."""
_FLOOR = 1e-4  # smallest NashConv of the figure
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
        factor: Claimed ratio of PSRO's iterations to XDO's until NashConv `below`.
        few: Claimed largest number of iterations of SP-PSRO until NashConv `below`.
    """
    results: dict[str, Any] = {}
    for name, settings in methods.items():
        results[name] = nash_conv_curve(env_id, PSROConfig(oracle="exact", payoff_estimation="exact", **settings))
        print(env_id, name, results[name]["curve"][-1], flush=True)
    tree = GameTree.of(Game.of(env_id))
    tolerance = methods[XDO]["restricted_tolerance"]
    began = time.perf_counter()
    solution = solve_restricted_game(tree, tolerance=tolerance)
    return {
        "env_id": env_id,
        "methods": results,
        "below": below,
        "choices": [int(legal.sum()) for legal in tree.legal],
        "whole_game": {
            "seconds": time.perf_counter() - began,
            "nash_conv": solution.nash_conv,
            "iterations": solution.iterations,
            "value": solution.value,
        },
        "met": verdicts({name: method["curve"] for name, method in results.items()}, below, factor, few),
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
            result: dict[str, Any] = {"curve": curve, "seed": config.seed}
            if config.variant == "xdo":
                numbers = range(1, config.iterations + 1)
                result["choices"] = [store.result(f"{number}/restricted")["choices"] for number in numbers]
    return result


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


def section(result: Mapping[str, Any]) -> list[str]:
    """Return the text and the table of one game."""
    methods, solution, below = result["methods"], result["whole_game"], result["below"]
    restricted, choices = methods["XDO"]["choices"][-1], result["choices"]
    lines = [
        f"{result['env_id']}. NashConv is exact, best responses and payoffs too, and nothing is random. Seconds are of "
        "a complete run: responses, payoffs, NashConv and files. PSRO is the double oracle algorithm (Nash as "
        "meta-strategy). SP-PSRO alternates "
        f"{result['settings']['methods']['SP-PSRO']['num_segments']} best responses for each average policy, and "
        "has the meta-strategy of anytime PSRO. The "
        f"last restricted game of XDO has {restricted[0]} + {restricted[1]} of {choices[0]} + {choices[1]} choices. "
        f"CFR+ solves the whole game to NashConv {solution['nash_conv']:.4f} in {solution['seconds']:.2f} s "
        f"({solution['iterations']} iterations); value of the first player {solution['value']:.4f}.",
        "",
        f"{_factor(methods, below)} {_rise(methods['PSRO']['curve'])} The figure shows values below {_FLOOR:g} as "
        f"{_FLOOR:g}.",
        "",
        "| method | " + " | ".join(f"iterations to {level:g}" for level in LEVELS) + f" | seconds to {below:g} | "
        "largest rise | minimum | last | iterations | seconds |",
        "| --- |" + " --- |" * (len(LEVELS) + 6),
    ]
    for name, method in methods.items():
        curve = method["curve"]
        reached = [first_below(curve, level) for level in LEVELS]
        cells = ["not reached" if number is None else str(number) for number in reached]
        at = first_below(curve, below)
        cells.append("not reached" if at is None else f"{curve[at][0]:.1f}")
        seconds, last = curve[-1]
        rise, least = largest_rise(curve), min(value for _, value in curve)
        numbers = [f"{number:.4f}" for number in (rise, least, last)]
        lines.append(f"| {name} | {' | '.join([*cells, *numbers])} | {len(curve) - 1} | {seconds:.1f} |")
    return lines


def _factor(methods: Mapping[str, Any], below: float) -> str:
    """Return the ratio of PSRO's iterations to XDO's in words."""
    plain, extensive = (first_below(methods[name]["curve"], below) for name in ("PSRO", "XDO"))
    if not plain or not extensive:
        return f"PSRO or XDO does not reach NashConv {below:g}."
    return (
        f"To NashConv {below:g} PSRO needs {plain} iterations and XDO {extensive}, a factor of {plain / extensive:.1f}."
    )


def _rise(curve: Sequence[Sequence[float]]) -> str:
    """Return the largest rise of PSRO in words."""
    values = [value for _, value in curve]
    number = max(range(1, len(values)), key=lambda index: values[index] - values[index - 1])
    return f"PSRO rises most in iteration {number}, from {values[number - 1]:.2f} to {values[number]:.2f}."


def draw(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw NashConv by iteration and by second, one row per game.

    Args:
        results: Recorded results by demonstration.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 0.6 + 2.6 * len(results)), layout="constrained")
    drawn: dict[str, Any] = {}
    for row, result in enumerate(results.values()):
        for column, label in enumerate(("iterations", "seconds")):
            axes = figure.add_subplot(len(results), 2, 2 * row + column + 1)
            for name, method in result["methods"].items():
                curve = method["curve"]
                places = [max(seconds, 0.02) if column else number for number, (seconds, _) in enumerate(curve)]
                heights = [max(value, _FLOOR) for _, value in curve]
                (drawn[name],) = axes.plot(places, heights, marker=".", markersize=3, lw=1.1)
            if column:
                axes.set_xscale("log")
            else:
                axes.set_xscale("symlog", linthresh=10)
            axes.set_yscale("log")
            axes.set_title(result["env_id"], fontsize=9)
            axes.set_xlabel(label, fontsize=8)
            axes.tick_params(labelsize=7)
            axes.grid(alpha=0.3)
    figure.legend(drawn.values(), drawn.keys(), loc="outside right upper", fontsize=7)
    figure.supylabel("NashConv", fontsize=8)
    save_figure(figure, PICTURE, 80)


def first_below(curve: Sequence[Sequence[float]], below: float) -> int | None:
    """Return the first iteration with NashConv of at most `below`, or None."""
    return next((number for number, (_, nash_conv) in enumerate(curve) if nash_conv <= below), None)


def largest_rise(curve: Sequence[Sequence[float]]) -> float:
    """Return the largest rise of NashConv from one iteration to the next; 0 if it never rises."""
    return max([0.0, *(now - previous for (_, previous), (_, now) in pairwise(curve))])
