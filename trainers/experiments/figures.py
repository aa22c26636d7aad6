"""Figures of the report of an experiment, as PNG and SVG: readable in print and by the color-blind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_envs.rendering.palette import PALETTE
from trainers.experiments.statistics import report_library
from trainers.storage.learning_curves import save_figure

DASHES = ("-", "--", "-.", ":")
"""Styles of lines, which tell algorithms apart without colors."""
MARKERS = "osD^v<>P"
"""Markers of lines."""


class Figures:
    """Figures in one folder with one style for every algorithm."""

    def __init__(self, out: Path, algorithms: Sequence[str]) -> None:
        """Choose the styles.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        report_library("matplotlib").rcParams["svg.hashsalt"] = "gpu-envs"  # equal figures are equal files
        self.out, self._figure = out, report_library("matplotlib.figure").Figure
        colors = list(PALETTE.values())
        self.styles: dict[str, dict[str, Any]] = {
            name: {
                "color": colors[i % len(colors)],
                "linestyle": DASHES[(i + i // len(colors)) % len(DASHES)],  # colors repeat with other dashes
                "marker": MARKERS[(i + i // len(colors)) % len(MARKERS)],
                "markersize": 4,
            }
            for i, name in enumerate(algorithms)
        }

    def curves(self, frame: Any, thresholds: Mapping[str, float | None], label: str = "score") -> list[Path]:
        """Draw the learning curves of every task, with a line at its threshold; "x", "value", "low" and "high"."""
        tasks = list(dict.fromkeys(frame.task))
        num_columns = min(3, len(tasks))
        num_rows = math.ceil(len(tasks) / num_columns)
        figure = self._figure(figsize=(4.2 * num_columns + 1.0, 3.0 * num_rows), layout="constrained")
        for index, task in enumerate(tasks, start=1):
            axes = figure.add_subplot(num_rows, num_columns, index)
            self._draw(axes, frame[frame.task == task])
            if (threshold := thresholds.get(task)) is not None:
                axes.axhline(threshold, color="0.4", linewidth=0.8)
            axes.set_title(task, fontsize=10)
        figure.supxlabel("environment steps", fontsize=9)
        figure.supylabel(label, fontsize=9)
        self._add_legend(figure)
        return self._save(figure, "curves")

    def lines(self, frame: Any, name: str, x_label: str, y_label: str) -> list[Path]:
        """Draw lines of all algorithms with their intervals; "x", "value", "low" and "high"."""
        figure = self._figure(figsize=(6.0, 3.4), layout="constrained")
        axes = figure.add_subplot()
        self._draw(axes, frame)
        axes.set_xlabel(x_label, fontsize=9)
        axes.set_ylabel(y_label, fontsize=9)
        self._add_legend(figure)
        return self._save(figure, name)

    def intervals(self, frame: Any, measures: Sequence[str]) -> list[Path]:
        """Draw measures over all tasks with their intervals; columns NAME, "NAME low" and "NAME high"."""
        figure = self._figure(figsize=(3.0 * len(measures), 0.8 + 0.35 * len(frame)), layout="constrained")
        for index, measure in enumerate(measures, start=1):
            axes = figure.add_subplot(1, len(measures), index)
            for row, record in enumerate(frame.to_dict("records")):
                style = self.styles[record["algorithm"]]
                ends = [record[f"{measure} low"], record[f"{measure} high"]]
                axes.plot(ends, [row, row], color=style["color"], linewidth=5, alpha=0.5, solid_capstyle="butt")
                axes.plot([record[measure]], [row], color=style["color"], marker=style["marker"])
            axes.set_yticks(range(len(frame)), frame.algorithm if index == 1 else [""] * len(frame), fontsize=9)
            axes.invert_yaxis()
            axes.set_title(f"{measure} (normalized)", fontsize=9)
            axes.tick_params(labelsize=8)
            axes.grid(alpha=0.3, axis="x")
        return self._save(figure, "aggregate")

    def _draw(self, axes: Any, frame: Any) -> None:
        for name, group in frame.groupby("algorithm", sort=False):
            style = self.styles[name]
            rows = group.sort_values("x")
            axes.plot(rows.x, rows.value, label=name, markevery=max(1, len(rows) // 8), **style)
            axes.fill_between(rows.x, rows.low, rows.high, color=style["color"], alpha=0.2, linewidth=0)
        if frame.x.max() > 1000:
            axes.xaxis.set_major_formatter(report_library("matplotlib.ticker").EngFormatter(sep=""))
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)

    def _add_legend(self, figure: Any) -> None:
        """List the algorithms of all axes beside them."""
        lines = {line.get_label(): line for axes in figure.axes for line in axes.lines}
        names = [name for name in self.styles if name in lines]
        figure.legend([lines[name] for name in names], names, loc="outside right upper", fontsize=8)

    def _save(self, figure: Any, name: str) -> list[Path]:
        files = [self.out / f"{name}.{kind}" for kind in ("png", "svg")]
        for file in files:
            save_figure(figure, file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)
        return files
