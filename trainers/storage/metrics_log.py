"""Log of a run: metrics.csv and TensorBoard events."""

from __future__ import annotations

import contextlib
import csv
import math
from pathlib import Path
from typing import Any

from gpu_envs.errors import MissingExtraError, packages
from gpu_envs.utils.paths import utf8_name
from trainers.storage.learning_curves import COUNTERS, read_rows

__all__ = ["MetricsLog"]


class MetricsLog:
    """Write metrics.csv and TensorBoard events of a run, one row per iteration.

    A resumed run drops the rows after its checkpoint, so that every iteration has one row.
    """

    def __init__(self, out: Path, after: int = 0) -> None:
        """Open the files in the folder `out`, and keep the rows of iterations up to `after`."""
        try:
            from tensorboard.compat.proto import summary_pb2
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"training needs {error.name}: pip install {packages('train')}") from None
        out.mkdir(parents=True, exist_ok=True)
        self.path: Path = out / "metrics.csv"
        rows = [row for row in read_rows(self.path) if int(row["iteration"]) <= after]
        self.columns: list[str] = list(rows[0]) if rows else []
        self._rewrite(rows)
        last = int(rows[-1]["env_steps"]) if rows else 0
        self._summary: Any = summary_pb2.Summary  # type: ignore[attr-defined]
        self._name = contextlib.ExitStack()  # TensorBoard opens its file again for every write
        name = self._name.enter_context(utf8_name(out))
        self.board = SummaryWriter(name, purge_step=last + 1 if rows else None)

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        temporary = self.path.with_suffix(".tmp")
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns, restval="")
            if self.columns:
                writer.writeheader()
            writer.writerows(rows)
        temporary.replace(self.path)

    def write(self, row: dict[str, float]) -> None:
        """Append a row with "iteration" and "env_steps"; values that are not finite become empty cells."""
        cells = {name: f"{value:.8g}" if math.isfinite(value) else "" for name, value in row.items()}
        cells |= {name: str(int(row[name])) for name in COUNTERS}
        if missing := [name for name in row if name not in self.columns]:  # rare: an evaluation adds columns
            self.columns += missing
            self._rewrite(read_rows(self.path))
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns, restval="").writerow(cells)
        metrics = {name: value for name, value in row.items() if name not in COUNTERS and math.isfinite(value)}
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        # one event per row: `add_scalar` writes one per value, which takes as long as a small update
        writer: Any = self.board.file_writer
        writer.add_summary(self._summary(value=values), int(row["env_steps"]))

    def close(self) -> None:
        """Flush and close the TensorBoard events."""
        self.board.close()
        self._name.close()
