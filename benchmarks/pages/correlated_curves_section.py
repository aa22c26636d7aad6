"""Section of docs/league.md about JPSRO in a game of three players."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.pages.population_curves_section import LEVELS, first_below

__all__ = ["section"]


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
    for name, each in result["correlated"].items():
        curve = each["curve"]
        reached = [first_below(curve, level) for level in levels]
        cells = ["not reached" if at is None else str(at) for at in reached]
        sizes = ", ".join(str(size) for size in each["policies"].values())
        seconds, last = curve[-1]
        lines.append(f"| {name} | {curve[0][1]:.4f} | {' | '.join(cells)} | {last:.1g} | {sizes} | {seconds:.1f} |")
    return lines
