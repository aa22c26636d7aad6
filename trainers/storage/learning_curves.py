"""Read the metrics of a run from its CSV file, and plot learning curves."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_envs.errors import CheckpointError, MissingExtraError, packages
from gpu_envs.rendering.palette import PALETTE, role_colors
from trainers.base.serialization import read_bytes

COUNTERS = ("iteration", "env_steps")
"""First columns of every metrics.csv, which are integers."""
NUM_SEEDS = "num_seeds"
"""Column of means over seeds: the number of runs that reached the iteration."""
INTERVAL = "/ci_half_width"
"""End of the names of columns with the half-width of the 95 % confidence interval of a mean over seeds."""


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read the complete rows of a metrics.csv.

    A last line without a newline is ignored: the writing process was killed or is still writing.

    Returns:
        Cells by column: "iteration" and "env_steps" hold integers, the others finite numbers or an empty string.

    Raises:
        CheckpointError: A line is damaged; the message names the first.
    """
    if not path.exists():
        return []
    data = read_bytes(path)
    rows: list[dict[str, str]] = []
    columns: list[str] = []
    content = data[: data.rfind(b"\n") + 1]
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8"), newline=""), strict=True)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CheckpointError(f"{path}: line {line}: expected UTF-8, got {error}; mend or remove the line") from None
    try:
        for cells in lines:
            if not columns:
                columns = cells
                if lacks := [name for name in COUNTERS if name not in columns]:
                    raise ValueError(f"expected a column {lacks[0]}, got none")
                if len(set(columns)) < len(columns):
                    raise ValueError("expected every column once, got one of them twice")
                continue
            if len(cells) != len(columns):
                raise ValueError(f"expected {len(columns)} cells, got {len(cells)}")
            rows.append(dict(zip(columns, cells, strict=True)))
            for name, cell in rows[-1].items():
                if name in COUNTERS and not (cell.isascii() and cell.isdecimal() and len(cell) < 19):
                    raise ValueError(f"{name:.80}: expected an int >= 0, got {cell!r:.80}")
                if cell and not _is_finite(cell):
                    raise ValueError(f"{name:.80}: expected a finite number or nothing, got {cell!r:.80}")
    except (csv.Error, ValueError) as error:
        raise CheckpointError(f"{path}: line {lines.line_num}: {error}; mend or remove the line") from None
    return rows


def _is_finite(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def plot_curves(csv_path: Path, png_path: Path, env_id: str = "") -> Path | None:
    """Plot the learning curves of a metrics.csv: one panel per quantity, one line per policy or group.

    Returns come first, then results of the environment. Other quantities that never change are left out. Roles have
    the colors of the worlds of `env_id`.

    Means over seeds have bands, their 95 % confidence intervals. They end where the first run ended, because the mean
    of fewer runs is not comparable. A band that is much wider than the lines vary is cut.

    Returns:
        `png_path`; None if the file holds no curves yet.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"curves need {error.name}: pip install {packages('train')}") from None

    rows = read_rows(csv_path)
    if rows and NUM_SEEDS in rows[0]:
        rows = [row for row in rows if row[NUM_SEEDS] == rows[0][NUM_SEEDS]]
    panels = _panels(rows)
    if not panels:
        return None
    colors = role_colors(env_id, [_owner(column) for columns in panels.values() for column in columns])
    wide = 4
    high = math.ceil(len(panels) / wide)
    figure = Figure(figsize=(4 * wide, 2.6 * high), layout="constrained")
    for index, (title, columns) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(high, wide, index)
        for column in columns:
            points = [(int(row["env_steps"]), float(row[column])) for row in rows if row.get(column)]
            if points:
                label, marker = _owner(column), "o" if len(points) < 2 else None
                axes.plot(*zip(*points, strict=True), label=label, marker=marker, color=PALETTE[colors[label]])
                _fill_interval(axes, rows, column)
        _limit_to_lines(axes)
        axes.set_title(title, fontsize=10)
        axes.tick_params(labelsize=8)
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 200k: longer numbers would overlap
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize=7)
    num_seeds = rows[0].get(NUM_SEEDS)
    figure.supxlabel(
        "environment steps"
        + (f"; mean over {num_seeds} seeds and its 95 % interval" if int(num_seeds or 1) > 1 else ""),
        fontsize=9,
    )
    save_figure(figure, png_path, dpi=110)
    return png_path


def save_figure(figure: Any, path: Path, **options: Any) -> None:
    """Write a figure of matplotlib atomically, in the format of the suffix, with options of its `savefig`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        figure.savefig(temporary, format=path.suffix[1:], **options)
        temporary.replace(path)  # a link of that name is replaced, not followed
    finally:
        temporary.unlink(missing_ok=True)


def _panels(rows: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return the columns of every panel by its title."""
    columns = [
        column
        for column in (rows[0] if rows else [])
        if _owner(column) not in ("", "time") and not column.endswith(INTERVAL)
    ]
    panels: dict[str, list[str]] = {}
    for column in sorted(columns, key=_rank):
        panels.setdefault(column_title(column), []).append(column)

    def is_constant(column: str) -> bool:
        cells = [row[column] for row in rows if row.get(column)]
        return len(cells) > 1 and len(set(cells)) == 1

    return {
        title: group
        for title, group in panels.items()
        if _rank(group[0]) < OTHER_RANK or not all(map(is_constant, group))
    }


OTHER_RANK = 2
"""Rank of a column that is neither a return nor a result of the environment."""


def _rank(column: str) -> int:
    """Return 0 for returns, 1 for results of the environment and measures of evaluations, else `OTHER_RANK`."""
    quantity = column.rpartition("/")[2]
    if quantity == "episode_return_mean" or column == SCORE or is_eval_return(column):
        return 0
    if quantity != "episode_length_mean" and (quantity.endswith("_mean") or column.startswith("eval/")):
        return 1
    return OTHER_RANK


SCORE = "eval/score"
"""Column with the score of an evaluation: the mean over groups of the return per team."""


def is_eval_return(column: str) -> bool:
    """Return whether a column is the return of a policy or group in evaluations, the sum over its agents."""
    return column.startswith("eval/") and column.endswith("/return")


def column_title(column: str) -> str:
    """Return the quantity of a column for people: a return says whether it is per agent or per team.

    A team is the agents of a policy or group; its return is their sum.
    """
    if column == SCORE:
        return "eval score (return per team)"
    if is_eval_return(column):
        return "eval return per team"
    quantity = column.rpartition("/")[2].replace("_", " ")
    if quantity == "episode return mean":
        return "return per agent"
    return f"eval {quantity}" if column.startswith("eval/") else quantity


def _limit_to_lines(axes: Any) -> None:
    """Cut bands that are much wider than the lines vary."""
    values = [value for line in axes.lines for value in line.get_ydata()]
    if not values or min(values) == max(values):
        return
    margin = 0.5 * (max(values) - min(values))
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, min(values) - margin), min(high, max(values) + margin))


def _owner(column: str) -> str:
    """Return the group or policy that a column is about."""
    return column.rpartition("/")[0].removeprefix("eval/")


def _fill_interval(axes: Any, rows: Sequence[Mapping[str, str]], column: str) -> None:
    """Draw the confidence interval of the last line, if the rows have one."""
    complete = [row for row in rows if row.get(column) and row.get(column + INTERVAL)]
    steps = [int(row["env_steps"]) for row in complete]
    means, halves = ([float(row[name]) for row in complete] for name in (column, column + INTERVAL))
    low, high = ([m + sign * h for m, h in zip(means, halves, strict=True)] for sign in (-1, 1))
    if complete:
        axes.fill_between(steps, low, high, color=axes.lines[-1].get_color(), alpha=0.25, linewidth=0)
