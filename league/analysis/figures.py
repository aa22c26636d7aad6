"""Pictures of a league: payoffs, ratings, exploitability, meta-strategies and lineage. Matplotlib figures of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_envs.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 16
"""Up to so many cells in a row have their number written into them, and policies their name beside the axis."""


STYLES = ("-", "--", ":", "-.")
"""Of lines, which may lie on each other."""
LEAST = 1e-6
"""Share of the largest number below which a logarithmic axis ends."""
LETTER = 0.056
"""Width of one in the names of policies, inches."""


@dataclass(frozen=True)
class Relative:
    """A policy in the tree of a population."""

    name: str
    """Of the policy."""
    parent: str | None
    """Of the same population; None: it began anew."""
    iteration: int
    """In which it joined."""
    weight: float = 0.0
    """In the last meta-strategy."""


def payoffs(
    values: np.ndarray, half: np.ndarray, rows: Sequence[str], columns: Sequence[str], seats: Sequence[str]
) -> Figure:
    """Heat map of what the first of two seats earns.

    Args:
        values: (N_1, N_2) means; NaN where nothing was played.
        half: (N_1, N_2) half-widths of their 95 % intervals.
        rows: Names of the first seat's policies.
        columns: Of the second's.
        seats: Names of the two seats.
    """
    few = max(values.shape) <= FEW
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


def curves(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], title: str, label: str, log: bool = False
) -> Figure:
    """Numbers over iterations.

    Args:
        lines: (iterations, numbers) by name; NaN leaves a gap.
        title: Above.
        label: Of the vertical axis.
        log: Logarithmic where they differ by more than ten times; numbers must then be > 0 to be seen.
    """
    figure = _figure(6.4, 3.8)
    axes = figure.add_subplot()
    for index, (name, (x, y)) in enumerate(lines.items()):
        marker = "o" if len(x) < 40 else None
        axes.plot(x, y, label=name, marker=marker, markersize=3, linestyle=STYLES[index % len(STYLES)])
    seen = [value for _, y in lines.values() for value in y if value > 0] if log else []
    if seen and max(seen) > 10 * min(seen):
        axes.set_yscale("log")
        if min(seen) < LEAST * max(seen):  # rounding: lines leave the picture below
            axes.set_ylim(LEAST * max(seen), 2 * max(seen))
    _by_iteration(axes)
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    if lines:
        axes.legend(fontsize=7, loc="best")
    return figure


def ratings(points: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Figure:
    """Ratings of policies by the iteration in which they came.

    Args:
        points: (iterations, ratings) by role; NaN: not rated.
    """
    figure = _figure(6.4, 3.8)
    axes = figure.add_subplot()
    for name, (x, y) in points.items():
        colour = axes.scatter(x, y, s=18, label=name, alpha=0.8).get_facecolor()[0]
        when, place = np.unique(x, return_inverse=True)
        best = np.full(len(when), np.nan)
        np.fmax.at(best, place, np.asarray(y, np.float64))
        axes.plot(when, np.fmax.accumulate(best), color=colour, linewidth=1, drawstyle="steps-post")
    _by_iteration(axes)
    axes.set_ylabel("Elo")
    axes.set_title("Ratings; the line is the best so far", fontsize=10)
    axes.grid(alpha=0.3)
    if len(points) > 1:
        axes.legend(fontsize=7, loc="best")
    return figure


def meta_strategies(
    strategies: Mapping[str, Sequence[Sequence[float]]], iterations: Sequence[int] | None = None
) -> Figure:
    """Weights of policies over iterations, a panel per role: the later the policy the further up.

    Args:
        strategies: By role, one list of weights per iteration, as long as its population was.
        iterations: Their numbers, one after the other; None: from 0.
    """
    figure = _figure(max(6.4, 3.6 * len(strategies)), 3.8)
    from matplotlib.colors import PowerNorm

    shade = PowerNorm(0.5, 0.0, 1.0)  # small weights are seen, too
    for place, (role, rows) in enumerate(strategies.items(), start=1):
        table = np.full((max(map(len, rows)), len(rows)), np.nan)
        for column, weights in enumerate(rows):
            table[: len(weights), column] = weights
        axes = figure.add_subplot(1, len(strategies), place)
        start = iterations[0] if iterations else 0
        extent = (start - 0.5, start + len(rows) - 0.5, -0.5, len(table) - 0.5)
        image = axes.imshow(table, origin="lower", aspect="auto", cmap="viridis", norm=shade, extent=extent)
        axes.set_title(role, fontsize=10)
        _by_iteration(axes)
        axes.set_ylabel("policy")
        axes.yaxis.get_major_locator().set_params(integer=True)
        figure.colorbar(image, ax=axes, label="weight")
    return figure


def lineage(relatives: Sequence[Relative], title: str) -> Figure:
    """Who began from whom: policies by the iteration they came in, dots as large as their weights."""
    children: dict[str | None, list[Relative]] = {}
    known = {each.name for each in relatives}
    for each in relatives:
        children.setdefault(each.parent if each.parent in known else None, []).append(each)
    by_name = {each.name: each for each in relatives}
    order: list[str] = []  # parents before their children, families together
    ahead = list(reversed(children.get(None, [])))
    while ahead:
        each = ahead.pop()
        order.append(each.name)
        ahead += reversed(children.get(each.name, []))
    rows = [name for name in order if name not in children]
    place = {name: float(row) for row, name in enumerate(rows)}
    for name in reversed(order):  # parents stand in the middle of their children
        if name in children:
            place[name] = sum(place[child.name] for child in children[name]) / len(children[name])
    width = 7.2
    figure = _figure(width, max(2.4, 0.22 * len(rows) + 1.0))
    axes = figure.add_subplot()
    for each in relatives:
        if each.parent in by_name:
            parent = by_name[each.parent]
            line = ([parent.iteration, each.iteration], [place[parent.name], place[each.name]])
            axes.plot(*line, color="0.6", linewidth=1)
    sizes = [18 + 220 * each.weight for each in relatives]
    axes.scatter([each.iteration for each in relatives], [place[each.name] for each in relatives], sizes, zorder=3)
    if len(relatives) <= 4 * FEW:
        last, longest = max(each.iteration for each in relatives), max(len(each.name) for each in relatives)
        room = width - 0.6 - LETTER * longest  # inches of all iterations, names of the last beside them
        inches = max(room, 1.0) / max(last, 1)
        axes.set_xlim(-0.15 / inches, last + (LETTER * longest + 0.3) / inches)
        for each in relatives:
            next_one = min((child.iteration for child in children.get(each.name, ())), default=None)
            if next_one is None or (next_one - each.iteration) * inches > LETTER * len(each.name) + 0.1:
                at, beside = (each.iteration, place[each.name]), next_one is None
                shift, up = ((4 + (18 + 220 * each.weight) ** 0.5 / 2, 0), "center") if beside else ((3, 4), "bottom")
                axes.annotate(each.name, at, shift, textcoords="offset points", fontsize=6, va=up)
    axes.set_yticks([])
    axes.margins(y=0.5 / max(len(rows), 1))
    _by_iteration(axes)
    axes.set_title(title, fontsize=10)
    return figure


def _short(value: float) -> str:
    """Three figures at most."""
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.3g}"


def _by_iteration(axes: Any) -> None:
    axes.set_xlabel("iteration")
    axes.xaxis.get_major_locator().set_params(integer=True)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"pictures need {error.name}: pip install 'gpu-envs[train]'") from None
    return Figure(figsize=(width, height), layout="constrained")
