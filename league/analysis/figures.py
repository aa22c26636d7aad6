"""Figures of a league, made of arrays with Matplotlib: payoffs, ratings, exploitability, meta-strategies, lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_envs.errors import MissingExtraError, packages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "LETTER_WIDTH",
    "MAX_LABELED",
    "MIN_LOG_SHARE",
    "STYLES",
    "LineageNode",
    "curve_figure",
    "lineage_figure",
    "meta_strategy_figure",
    "payoff_figure",
    "rating_figure",
]

MAX_LABELED = 16
"""Largest number of rows or columns for which cells show their value and axes the names of policies."""


STYLES = ("-", "--", ":", "-.")
"""Line styles, which keep overlapping lines visible."""
MIN_LOG_SHARE = 1e-6
"""Lower limit of a logarithmic axis as a share of the largest value."""
LETTER_WIDTH = 0.056
"""Width of a letter in the names of policies [inch]."""


@dataclass(frozen=True)
class LineageNode:
    """A policy in the lineage of a population."""

    name: str
    """Name of the policy."""
    parent: str | None
    """Parent in the same population; None: it was initialized from scratch."""
    iteration: int
    """Iteration in which it was added."""
    weight: float = 0.0
    """Weight in the final meta-strategy."""


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


def lineage_figure(relatives: Sequence[LineageNode], title: str, color: str | None = None) -> Figure:
    """Draw the lineage of policies over the iterations in which they were added; dot sizes show their weights."""
    children: dict[str | None, list[LineageNode]] = {}
    names = {node.name for node in relatives}
    for node in relatives:
        children.setdefault(node.parent if node.parent in names else None, []).append(node)
    by_name = {node.name: node for node in relatives}
    order: list[str] = []  # parents before their children, children next to each other
    ahead = list(reversed(children.get(None, [])))
    while ahead:
        node = ahead.pop()
        order.append(node.name)
        ahead += reversed(children.get(node.name, []))
    rows = [name for name in order if name not in children]
    height = {name: float(row) for row, name in enumerate(rows)}
    for name in reversed(order):  # parents are centered above their children
        if name in children:
            height[name] = sum(height[child.name] for child in children[name]) / len(children[name])
    width = 7.2
    figure = _figure(width, max(2.4, 0.22 * len(rows) + 1.0))
    axes = figure.add_subplot()
    for node in relatives:
        if node.parent in by_name:
            parent = by_name[node.parent]
            line = ([parent.iteration, node.iteration], [height[parent.name], height[node.name]])
            axes.plot(*line, color="0.6", linewidth=1)
    sizes = [18 + 220 * node.weight for node in relatives]
    x, y = [node.iteration for node in relatives], [height[node.name] for node in relatives]
    axes.scatter(x, y, sizes, zorder=3, color=color)
    if len(relatives) <= 4 * MAX_LABELED:
        last, longest = max(node.iteration for node in relatives), max(len(node.name) for node in relatives)
        room = width - 0.6 - LETTER_WIDTH * longest  # [inch] for all iterations; names of the last are beside them
        inches = max(room, 1.0) / max(last, 1)
        axes.set_xlim(-0.15 / inches, last + (LETTER_WIDTH * longest + 0.3) / inches)
        for node in relatives:
            next_one = min((child.iteration for child in children.get(node.name, ())), default=None)
            if next_one is None or (next_one - node.iteration) * inches > LETTER_WIDTH * len(node.name) + 0.1:
                at, is_beside = (node.iteration, height[node.name]), next_one is None
                shift, up = (
                    ((4 + (18 + 220 * node.weight) ** 0.5 / 2, 0), "center") if is_beside else ((3, 4), "bottom")
                )
                axes.annotate(node.name, at, shift, textcoords="offset points", fontsize=6, va=up)
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
