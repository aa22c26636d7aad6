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


@dataclass(frozen=True)
class Relative:
    """A policy in the tree of a population."""

    name: str
    parent: str | None
    """Of the same population; None: it began anew."""
    iteration: int
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
    side = 0.62 if few else max(0.08, 9 / max(values.shape))
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
                text = f"{value:.2g}" + (f"\n±{half[i, j]:.1g}" if np.isfinite(half[i, j]) and half[i, j] else "")
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
        log: Logarithmic; numbers must then be > 0 to be seen.
    """
    figure = _figure(6.4, 3.8)
    axes = figure.add_subplot()
    for name, (x, y) in lines.items():
        axes.plot(x, y, label=name, marker="o" if len(x) < 40 else None, markersize=3)
    if log and any(value > 0 for _, y in lines.values() for value in y):
        axes.set_yscale("log")
    _by_iteration(axes)
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    if len(lines) > 1:
        axes.legend(fontsize=7, loc="best")
    return figure


def meta_strategies(strategies: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    """Weights of policies over iterations, a panel per seat: the later the policy the further up.

    Args:
        strategies: By seat, one list of weights per iteration, as long as its population was.
    """
    figure = _figure(max(6.4, 3.6 * len(strategies)), 3.8)
    for place, (seat, rows) in enumerate(strategies.items(), start=1):
        table = np.full((max(map(len, rows)), len(rows)), np.nan)
        for column, weights in enumerate(rows):
            table[: len(weights), column] = weights
        axes = figure.add_subplot(1, len(strategies), place)
        image = axes.imshow(table, origin="lower", aspect="auto", cmap="viridis", vmin=0, vmax=1)
        axes.set_title(seat, fontsize=10)
        _by_iteration(axes)
        axes.set_ylabel("policy")
        figure.colorbar(image, ax=axes, label="weight")
    return figure


def lineage(relatives: Sequence[Relative], title: str) -> Figure:
    """Who began from whom: policies by the iteration they came in, dots as large as their weights."""
    children: dict[str | None, list[Relative]] = {}
    known = {each.name for each in relatives}
    for each in relatives:
        children.setdefault(each.parent if each.parent in known else None, []).append(each)
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
    figure = _figure(6.4, max(3.0, 0.2 * len(rows) + 1.2))
    axes = figure.add_subplot()
    by_name = {each.name: each for each in relatives}
    for each in relatives:
        if each.parent in by_name:
            parent = by_name[each.parent]
            axes.plot(
                [parent.iteration, each.iteration], [place[parent.name], place[each.name]], color="0.6", linewidth=1
            )
    sizes = [18 + 220 * each.weight for each in relatives]
    axes.scatter([each.iteration for each in relatives], [place[each.name] for each in relatives], sizes, zorder=3)
    if len(relatives) <= 4 * FEW:
        for each in relatives:
            axes.annotate(each.name, (each.iteration, place[each.name]), (4, 3), textcoords="offset points", fontsize=6)
    axes.set_yticks([])
    _by_iteration(axes)
    axes.set_title(title, fontsize=10)
    return figure


def _by_iteration(axes: Any) -> None:
    axes.set_xlabel("iteration")
    axes.xaxis.get_major_locator().set_params(integer=True)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"pictures need {error.name}: pip install 'gpu-envs[train]'") from None
    return Figure(figsize=(width, height), layout="constrained")
