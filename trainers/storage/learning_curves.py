"""What a run tells: metrics.csv, TensorBoard, curves.png, progress, and the time each phase takes."""

from __future__ import annotations

import csv
import io
import math
import os
import time
from pathlib import Path
from typing import Any, Protocol

import torch

from gpu_envs.errors import CheckpointError, MissingExtraError
from trainers.files import read_bytes

PHASES = ("policy", "environment", "storage", "learning", "evaluation", "logging", "checkpoint")
"""Of an iteration: together they take as long as it does."""
COUNTERS = ("iteration", "steps")
"""Columns that every metrics.csv has, of whole numbers."""


class Clock:
    """Adds up the seconds of named phases; on a GPU by events in the stream, so that measuring waits for nothing.

    Marks that are recorded into a CUDA graph count again with every replay, see `replayed`.
    """

    def __init__(self, device: torch.device) -> None:
        """Starts the first phase now."""
        self.device, self.cuda = device, device.type == "cuda"
        self.totals: dict[str, float] = {}
        self.events: list[tuple[str, Any, Any]] = []
        self.in_graph: list[tuple[str, Any, Any]] = []
        self.last: Any = None
        self.start()

    def _now(self) -> Any:
        if not self.cuda:
            return time.perf_counter()
        with torch.cuda.device(self.device):  # an event belongs to the device that is current when it is recorded
            # an external event is a node of its own in the graph, with a time that can be read
            event = torch.cuda.Event(enable_timing=True, external=torch.cuda.is_current_stream_capturing())
            event.record()
        return event

    def start(self) -> None:
        """Forgets the time since the last mark."""
        self.last = self._now()

    def mark(self, phase: str) -> None:
        """Gives the time since the last mark to `phase`."""
        now = self._now()
        if not self.cuda:
            self.totals[phase] = self.totals.get(phase, 0.0) + now - self.last
        elif torch.cuda.is_current_stream_capturing():
            self.in_graph.append((phase, self.last, now))
        else:
            self.events.append((phase, self.last, now))
        self.last = now

    def replayed(self) -> None:
        """Counts the marks of the graph that has just been replayed; once between two readings."""
        self.events += self.in_graph

    def read(self) -> dict[str, float]:
        """Seconds by phase since the last reading; on a GPU this waits for the stream."""
        if self.cuda:
            torch.cuda.synchronize(self.device)
            for phase, begin, end in self.events:
                self.totals[phase] = self.totals.get(phase, 0.0) + begin.elapsed_time(end) / 1e3
            self.events.clear()
        totals, self.totals = self.totals, {}
        return totals


class RunLog:
    """metrics.csv and TensorBoard events of a run, one row per iteration.

    A resumed run drops the rows after the checkpoint it continues from, so that no iteration stands there twice.
    """

    def __init__(self, out: Path, after: int = 0) -> None:
        """Opens the files in `out`, keeping the rows of iterations up to `after`; see `read_rows`."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"training needs {error.name}: pip install 'gpu-envs[train]'") from None
        out.mkdir(parents=True, exist_ok=True)
        self.path = out / "metrics.csv"
        rows = [row for row in read_rows(self.path) if int(row["iteration"]) <= after]
        self.columns: list[str] = list(rows[0]) if rows else []
        self._rewrite(rows)
        last = int(rows[-1]["steps"]) if rows else 0
        self.board = SummaryWriter(str(out), purge_step=last + 1 if rows else None)

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        temporary = self.path.with_suffix(".tmp")
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns, restval="")
            if self.columns:
                writer.writeheader()
            writer.writerows(rows)
        temporary.replace(self.path)

    def write(self, row: dict[str, float]) -> None:
        """Appends a row, which has "iteration" and "steps"; what is not finite becomes an empty cell."""
        cells = {name: f"{value:.8g}" if math.isfinite(value) else "" for name, value in row.items()}
        cells |= {name: str(int(row[name])) for name in COUNTERS}
        if missing := [name for name in row if name not in self.columns]:  # rare: evaluations have columns of their own
            self.columns += missing
            self._rewrite(read_rows(self.path))
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns, restval="").writerow(cells)
        for name, value in row.items():
            if name not in COUNTERS and math.isfinite(value):
                self.board.add_scalar(name, value, int(row["steps"]))

    def close(self) -> None:
        """Flushes TensorBoard's events."""
        self.board.close()


def read_rows(path: Path) -> list[dict[str, str]]:
    """Reads the complete rows of a metrics.csv.

    The end of a file that no newline follows is left out: a kill cut it short, or it is still being written.

    Returns:
        Cells by column: "iteration" and "steps" hold whole numbers, the others finite numbers or nothing.

    Raises:
        CheckpointError: Naming the first line that is damaged.
    """
    if not path.exists():
        return []
    data = read_bytes(path)
    rows: list[dict[str, str]] = []
    columns: list[str] = []
    whole = data[: data.rfind(b"\n") + 1]
    try:
        lines = csv.reader(io.StringIO(whole.decode("utf-8"), newline=""), strict=True)
    except UnicodeDecodeError as error:
        line = whole.count(b"\n", 0, error.start) + 1
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


def plot_curves(csv_path: Path, png_path: Path) -> Path | None:
    """Draws every learning curve of a metrics.csv: one panel per quantity, one line per policy or group.

    Returns:
        png_path, None if there is nothing to draw yet.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"curves need {error.name}: pip install 'gpu-envs[train]'") from None

    rows = read_rows(csv_path)
    panels: dict[str, list[str]] = {}
    for column in rows[0] if rows else []:
        owner, _, quantity = column.rpartition("/")
        if owner and owner != "time":
            panels.setdefault(("eval " if owner.startswith("eval/") else "") + quantity, []).append(column)
    if not panels:
        return None
    wide = 4
    high = math.ceil(len(panels) / wide)
    figure = Figure(figsize=(4 * wide, 2.6 * high), layout="constrained")
    for place, (quantity, columns) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(high, wide, place)
        for column in columns:
            points = [(int(row["steps"]), float(row[column])) for row in rows if row.get(column)]
            if points:
                label = column.rpartition("/")[0].removeprefix("eval/")
                axes.plot(*zip(*points, strict=True), label=label, marker="o" if len(points) < 2 else None)
        axes.set_title(quantity.replace("_", " "), fontsize=10)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize=7)
    figure.supxlabel("steps of worlds", fontsize=9)
    temporary = png_path.with_name(f".{png_path.name}.{os.getpid()}")
    try:
        figure.savefig(temporary, dpi=110, format="png")
        temporary.replace(png_path)  # a link of that name is replaced, not followed
    finally:
        temporary.unlink(missing_ok=True)
    return png_path


class Progress(Protocol):
    """Where long work reports how far it is."""

    def __call__(self, done: int, text: str) -> None:
        """Shows how much is done so far, and a line about it."""
        ...
