"""Figures of a report as PNG files: payoffs, ratings, exploitability, meta-strategies, lineage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_envs.errors import MissingExtraError, packages
from gpu_envs.rendering.palette import PALETTE, role_colors
from league.analysis.report_data import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_LABELED = 16
"""Largest number of rows or columns for which cells show their value and axes the names of policies."""
STYLES = ("-", "--", ":", "-.")
"""Line styles, which keep overlapping lines visible."""
MIN_LOG_SHARE = 1e-6
"""Lower limit of a logarithmic axis as a share of the largest value."""
LETTER_WIDTH = 0.056
"""Width of a letter in the names of policies [inch]."""


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
        yield "payoffs", payoff_figure(mean[0], half[0], first, second, seats)
        if not np.allclose(mean[0], -mean[1], equal_nan=True):
            yield f"payoffs_{seats[1]}", payoff_figure(mean[1].T, half[1].T, second, first, seats[::-1])
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
        yield "exploitability", curve_figure(lines, "Exploitability", "gain of all seats", log=True)
    rated = {
        role: ([entry["iteration"] for entry in entries], [_nan(entry.get("elo")) for entry in entries])
        for role, entries in report.policies.items()
        if any(entry.get("elo") is not None for entry in entries)
    }
    if rated:
        yield "ratings", rating_figure(rated, colors)
    solved = [row for row in rows if row["strategy"] is not None]
    if solved:
        places: dict[str, int] = {}  # one seat of each role
        for index, seat in enumerate(report.seats):
            places.setdefault(seat["role"], index)
        by_role = {role: [row["strategy"][index] for row in solved] for role, index in places.items()}
        yield "meta_strategy", meta_strategy_figure(by_role, [row["iteration"] for row in solved])
    for role, entries in report.policies.items():
        if entries:
            yield f"lineage_{role}", lineage_figure(entries, f"Lineage of {role}", colors.get(role))


def payoff_figure(
    values: np.ndarray, half: np.ndarray, rows: Sequence[str], columns: Sequence[str], seats: Sequence[str]
) -> Figure:
    """Draw a heat map of the first seat's payoffs.

    Args:
        values: (N_1, N_2) mean payoffs; NaN without episodes.
        half: (N_1, N_2) half-widths of their 95 % intervals.
        rows: Names of the first seat's policies.
        columns: Names of the second seat's policies.
        seats: Names of the two seats.
    """
    few = max(values.shape) <= MAX_LABELED
    side = 0.62 if few else max(0.05, 6 / max(values.shape))
    figure = _figure(max(4.5, side * values.shape[1] + 2.6), max(3.6, side * values.shape[0] + 1.6))
    axes = figure.add_subplot()
    limit = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    image = axes.imshow(values, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
    figure.colorbar(image, ax=axes, label=f"return of {seats[0]}")
    axes.set_xlabel(f"policies of {seats[1]}")
    axes.set_ylabel(f"policies of {seats[0]}")
    if few:
        axes.set_xticks(range(len(columns)), columns, rotation=45, ha="right", fontsize=7)
        axes.set_yticks(range(len(rows)), rows, fontsize=7)
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                dark = abs(value) > 0.6 * limit
                text = _short(float(value)) + (
                    f"\n±{_short(float(half[i, j]))}" if np.isfinite(half[i, j]) and half[i, j] else ""
                )
                axes.text(j, i, text, ha="center", va="center", fontsize=6, color="white" if dark else "black")
    axes.set_title("Payoffs", fontsize=10)
    return figure


def curve_figure(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], title: str, label: str, log: bool = False
) -> Figure:
    """Draw values over iterations.

    Args:
        lines: (iterations, values) by name; NaN leaves a gap.
        title: Title of the figure.
        label: Label of the vertical axis.
        log: Use a logarithmic axis if positive values differ by more than a factor of ten.
    """
    figure = _figure(6.4, 3.8)
    axes = figure.add_subplot()
    for index, (name, (x, y)) in enumerate(lines.items()):
        marker = "o" if len(x) < 40 else None
        axes.plot(x, y, label=name, marker=marker, markersize=3, linestyle=STYLES[index % len(STYLES)])
    positive = [value for _, y in lines.values() for value in y if value > 0] if log else []
    if positive and max(positive) > 10 * min(positive):
        axes.set_yscale("log")
        if min(positive) < MIN_LOG_SHARE * max(positive):  # rounding errors of zeros
            axes.set_ylim(MIN_LOG_SHARE * max(positive), 2 * max(positive))
    _by_iteration(axes)
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    if lines:
        axes.legend(fontsize=7, loc="best")
    return figure


def rating_figure(
    points: Mapping[str, tuple[Sequence[float], Sequence[float]]], colors: Mapping[str, str] | None = None
) -> Figure:
    """Draw the ratings of policies over the iterations in which they were added.

    Args:
        points: (iterations, ratings) by role; NaN: not rated.
        colors: Colors of the roles; None for matplotlib's.
    """
    figure = _figure(6.4, 3.8)
    axes = figure.add_subplot()
    for name, (x, y) in points.items():
        role_color = (colors or {}).get(name)
        color = axes.scatter(x, y, s=18, label=name, alpha=0.8, color=role_color).get_facecolor()[0]
        when, inverse = np.unique(x, return_inverse=True)
        best = np.full(len(when), np.nan)
        np.fmax.at(best, inverse, np.asarray(y, np.float64))
        axes.plot(when, np.fmax.accumulate(best), color=color, linewidth=1, drawstyle="steps-post")
    _by_iteration(axes)
    axes.set_ylabel("Elo")
    axes.set_title("Ratings; the line is the best so far", fontsize=10)
    axes.grid(alpha=0.3)
    if len(points) > 1:
        axes.legend(fontsize=7, loc="best")
    return figure


def meta_strategy_figure(
    strategies: Mapping[str, Sequence[Sequence[float]]], iterations: Sequence[int] | None = None
) -> Figure:
    """Draw the weights of policies over iterations, one panel per role with later policies further up.

    Args:
        strategies: By role, the weights of the policies in each iteration.
        iterations: Consecutive numbers of the iterations; None: from 0.
    """
    figure = _figure(max(6.4, 3.6 * len(strategies)), 3.8)
    from matplotlib.colors import PowerNorm

    shade = PowerNorm(0.5, 0.0, 1.0)  # keeps small weights visible
    for panel, (role, rows) in enumerate(strategies.items(), start=1):
        table = np.full((max(map(len, rows)), len(rows)), np.nan)
        for column, weights in enumerate(rows):
            table[: len(weights), column] = weights
        axes = figure.add_subplot(1, len(strategies), panel)
        start = iterations[0] if iterations else 0
        extent = (start - 0.5, start + len(rows) - 0.5, -0.5, len(table) - 0.5)
        image = axes.imshow(table, origin="lower", aspect="auto", cmap="viridis", norm=shade, extent=extent)
        axes.set_title(role, fontsize=10)
        _by_iteration(axes)
        axes.set_ylabel("policy")
        axes.yaxis.get_major_locator().set_params(integer=True)
        figure.colorbar(image, ax=axes, label="weight")
    return figure


def lineage_figure(policies: Sequence[Mapping[str, Any]], title: str, color: str | None = None) -> Figure:
    """Draw the lineage of policies over the iterations in which they were added; dot sizes show their weights.

    Args:
        policies: Policies of a role, see `Report.policies`.
        title: Title of the figure.
        color: Color of the dots; None for matplotlib's.
    """
    by_index = {policy["index"]: policy for policy in policies}
    children: dict[int | None, list[int]] = {}
    for index, policy in by_index.items():
        children.setdefault(policy["parent"] if policy["parent"] in by_index else None, []).append(index)
    order: list[int] = []  # parents before their children, children next to each other
    ahead = list(reversed(children.get(None, [])))
    while ahead:
        index = ahead.pop()
        order.append(index)
        ahead += reversed(children.get(index, []))
    rows = [index for index in order if index not in children]
    height = {index: float(row) for row, index in enumerate(rows)}
    for index in reversed(order):  # parents are centered above their children
        if index in children:
            height[index] = sum(height[child] for child in children[index]) / len(children[index])
    width = 7.2
    figure = _figure(width, max(2.4, 0.22 * len(rows) + 1.0))
    axes = figure.add_subplot()
    for index, policy in by_index.items():
        if policy["parent"] in by_index:
            parent = by_index[policy["parent"]]
            line = ([parent["iteration"], policy["iteration"]], [height[parent["index"]], height[index]])
            axes.plot(*line, color="0.6", linewidth=1)
    sizes = [18 + 220 * (policy.get("weight") or 0.0) for policy in policies]
    x, y = [policy["iteration"] for policy in policies], [height[index] for index in by_index]
    axes.scatter(x, y, sizes, zorder=3, color=color)
    if len(policies) <= 4 * MAX_LABELED:
        last, longest = max(x), max(len(policy["name"]) for policy in policies)
        room = width - 0.6 - LETTER_WIDTH * longest  # [inch] for all iterations; names of the last are beside them
        inches = max(room, 1.0) / max(last, 1)
        axes.set_xlim(-0.15 / inches, last + (LETTER_WIDTH * longest + 0.3) / inches)
        for (index, policy), size in zip(by_index.items(), sizes, strict=True):
            next_one = min((by_index[child]["iteration"] for child in children.get(index, ())), default=None)
            at, name = (policy["iteration"], height[index]), policy["name"]
            if next_one is None:  # beside the dot
                axes.annotate(name, at, (4 + size**0.5 / 2, 0), textcoords="offset points", fontsize=6, va="center")
            elif (next_one - policy["iteration"]) * inches > LETTER_WIDTH * len(name) + 0.1:  # above the line
                axes.annotate(name, at, (3, 4), textcoords="offset points", fontsize=6, va="bottom")
    axes.set_yticks([])
    axes.margins(y=0.5 / max(len(rows), 1))
    _by_iteration(axes)
    axes.set_title(title, fontsize=10)
    return figure


def _short(value: float) -> str:
    """Format a number with three digits."""
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.3g}"


def _by_iteration(axes: Any) -> None:
    axes.set_xlabel("iteration")
    axes.xaxis.get_major_locator().set_params(integer=True)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"figures need {error.name}: pip install {packages('train')}") from None
    return Figure(figsize=(width, height), layout="constrained")


def _nan(value: Any) -> float:
    return math.nan if value is None else float(value)
