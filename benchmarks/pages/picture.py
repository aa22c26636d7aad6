"""Plots of docs/performance.md and of `make bench`."""

from collections.abc import Sequence
from itertools import cycle, product
from operator import itemgetter
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from benchmarks.hardware.page_files import save_figure
from benchmarks.pages.performance_page import number
from benchmarks.pages.results import Pair

if TYPE_CHECKING:
    from benchmarks.throughput.target import Figure

COLORS = ("#1f6fb2", "#d1495b", "#7a9e3a", "#8d8d8d", "#6b4fa0", "#e0912f", "#3aa6a0", "#b0578d")
LINES = ("o-", "s--", "^:")
"""Line styles; the colors repeat with each style."""
STYLE: dict[Any, Any] = {"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}


def draw(figures: Sequence["Figure"], title: str, path: Path, along: str) -> None:
    """Plot figures by curve with their quartiles and write a PNG; ``along`` is the label of the x axis.

    A library that was measured with one world only gets a dashed level line for comparisons with more worlds.
    """
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(9.6, 4.8), layout="constrained")
        axes = canvas.subplots()
        farthest = max(figure.at or 0.0 for figure in figures)
        names = dict.fromkeys(figure.curve for figure in figures)
        for curve, (line, color) in zip(names, cycle(product(LINES, COLORS)), strict=False):
            points = [
                (f.at, f.value, f.low or f.value, f.high or f.value)
                for f in figures
                if f.curve == curve and f.at is not None and f.value is not None
            ]
            points.sort(key=itemgetter(0))
            at, values, low, high = ([row[column] for row in points] for column in range(4))
            axes.fill_between(at, low, high, color=color, alpha=0.15, linewidth=0)
            axes.plot(at, values, line, color=color, label=curve)
            if along == "worlds" and {*at} == {1} and farthest > 1:  # further worlds one after another
                level = [mean(values)] * 2
                axes.plot([1, farthest], level, "--", color=color, label=f"{curve}, one world")
        axes.set(xscale="log", yscale="log", xlabel=along, ylabel=figures[0].unit)
        canvas.suptitle(title, fontsize=12, x=0.01, ha="left")  # over the legend, too
        axes.grid(which="major", alpha=0.3)
        canvas.legend(loc="outside right center", frameon=False)
        save_figure(canvas, path, 110)


def draw_ratios(pairs: Sequence[Pair], path: Path) -> None:
    """Draw a bar per comparison, from equal speed to the ratio, and write a PNG."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import FixedLocator

    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(10.4, 0.6 + 0.4 * len(pairs)), layout="constrained")
        axes = canvas.subplots()
        for index, pair in enumerate(pairs):
            faster = pair.ratio >= 1
            axes.barh(index, pair.ratio - 1, left=1, height=0.6, color=COLORS[0] if faster else COLORS[1])
            text, right = f"{number(pair.ratio)} x {pair.other}", max(pair.ratio, 1.0)
            axes.annotate(text, (right, index), (5, 0), textcoords="offset points", va="center")
        axes.axvline(1, color="black", lw=1)
        axes.set_yticks(range(len(pairs)), [pair.label for pair in pairs])
        axes.invert_yaxis()
        ratios = [pair.ratio for pair in pairs]
        axes.set(xscale="log", xlim=(min(*ratios, 1) / 1.5, 500 * max(ratios)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g} x")
        axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in range(-3, 7) if 10**power <= max(ratios)]))
        axes.minorticks_off()
        axes.set_xlabel("steps per second of gpu-envs over the fastest other library, same processor")
        axes.set_title("Blue: gpu-envs is faster; red: the other library is faster", fontsize=12, loc="left")
        save_figure(canvas, path, 110)
