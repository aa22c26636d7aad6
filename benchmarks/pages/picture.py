"""Plot of the curves of a group, with logarithmic axes."""

from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.throughput.target import Figure

COLORS = ("#1f6fb2", "#d1495b", "#7a9e3a", "#8d8d8d", "#6b4fa0", "#e0912f", "#3aa6a0", "#b0578d")
LINES = ("o-", "s--", "^:")
"""Line styles; the colors repeat with each style."""


def draw(figures: Sequence["Figure"], title: str, path: Path, along: str) -> None:
    """Plot figures by curve with their quartiles and write a PNG; ``along`` is the label of the x axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        canvas, axes = plt.subplots(figsize=(9.6, 4.8), layout="constrained")
        for curve, (line, color) in zip(_curves(figures), cycle(product(LINES, COLORS)), strict=False):
            mine = sorted((figure for figure in figures if figure.curve == curve), key=lambda figure: figure.at or 0.0)
            at = [figure.at for figure in mine]
            low, high = ([getattr(f, side) or f.value for f in mine] for side in ("low", "high"))
            axes.fill_between(at, low, high, color=color, alpha=0.15, linewidth=0)  # type: ignore[arg-type]
            axes.plot(at, [figure.value for figure in mine], line, color=color, label=curve)  # type: ignore[arg-type]
        axes.set(xscale="log", yscale="log", xlabel=along, ylabel=figures[0].unit)
        axes.set_title(title, fontsize=12, loc="left")
        axes.grid(which="major", alpha=0.3)
        canvas.legend(loc="outside right upper", frameon=False)
        canvas.savefig(path, dpi=110, metadata={"Software": None})
        plt.close(canvas)


def _curves(figures: Sequence["Figure"]) -> list[str]:
    """Return the names of the curves in order."""
    return list(dict.fromkeys(figure.curve for figure in figures))
