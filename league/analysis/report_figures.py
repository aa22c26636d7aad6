"""Figures of a report as PNG files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_envs.rendering.palette import PALETTE, role_colors
from league.analysis import figures as draw
from league.analysis.report_data import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["report_figures", "write_figures"]


def write_figures(report: Report, folder: Path) -> list[Path]:
    """Write a PNG for each figure, and return the files."""
    written = []
    for name, figure in report_figures(report):
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=130, metadata={"Software": None})
        written.append(path)
    return written


def report_figures(report: Report) -> Iterator[tuple[str, Figure]]:
    """Yield the file name and the figure of each drawing that the data allow."""
    seats = [seat["name"] for seat in report.seats]
    roles = role_colors(report.env_id, [seat["role"] for seat in report.seats])
    colors = {role: PALETTE[color] for role, color in roles.items()}
    names = {role: [entry["name"] for entry in entries] for role, entries in report.policies.items()}
    if len(seats) == 2 and all(names.values()):
        mean = np.array(report.payoffs["mean"], np.float64)
        half = np.array(report.payoffs["half_width"], np.float64)
        first, second = (names[seat["role"]] for seat in report.seats)
        yield "payoffs", draw.payoff_figure(mean[0], half[0], first, second, seats)
        if not np.allclose(mean[0], -mean[1], equal_nan=True):
            yield f"payoffs_{seats[1]}", draw.payoff_figure(mean[1].T, half[1].T, second, first, seats[::-1])
    rows = report.iterations
    lines = {
        title: ([row["iteration"] for row in rows], [_nan(row[key]) for row in rows])
        for key, title in (
            ("nash_conv", "NashConv"),
            ("best_nash_conv", "best so far"),
            ("ce_gap", "CE gap"),
            ("population_gain", "gain by own policies"),
        )
        if any(row[key] is not None for row in rows)
    }
    if lines:
        if report.exploit is not None and report.strategy is not None:
            at, value = report.strategy["iteration"], report.exploit["nash_conv"]
            lines["learned responses (lower bound)"] = ([at], [value])
        yield "exploitability", draw.curve_figure(lines, "Exploitability", "gain of all seats", log=True)
    rated = {
        role: ([entry["iteration"] for entry in entries], [_nan(entry.get("elo")) for entry in entries])
        for role, entries in report.policies.items()
        if any(entry.get("elo") is not None for entry in entries)
    }
    if rated:
        yield "ratings", draw.rating_figure(rated, colors)
    solved = [row for row in rows if row["strategy"] is not None]
    if solved:
        places: dict[str, int] = {}  # one seat of each role
        for index, seat in enumerate(report.seats):
            places.setdefault(seat["role"], index)
        by_role = {role: [row["strategy"][index] for row in solved] for role, index in places.items()}
        yield "meta_strategy", draw.meta_strategy_figure(by_role, [row["iteration"] for row in solved])
    for role, entries in report.policies.items():
        if entries:
            by_index = {entry["index"]: entry["name"] for entry in entries}
            relatives = [
                draw.LineageNode(
                    entry["name"], by_index.get(entry["parent"]), entry["iteration"], entry.get("weight") or 0.0
                )
                for entry in entries
            ]
            yield f"lineage_{role}", draw.lineage_figure(relatives, f"Lineage of {role}", colors.get(role))


def _nan(value: Any) -> float:
    return math.nan if value is None else float(value)
