"""metrics.csv, the log of a training that resuming and the viewer read."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainers.storage.learning_curves import read_rows
from trainers.storage.seed_metrics import format_cell, write_rows


class CSVLogger:
    """Write metrics.csv, one row per iteration; `trainers.loggers.logger.Logger` describes the methods.

    Rows have "iteration" and "env_steps". Values that are not finite become empty cells.
    """

    def __init__(self, run_dir: Path, last_step: int = 0) -> None:
        """Open the file, and drop the rows after `last_step`, so that every iteration has one row."""
        run_dir.mkdir(parents=True, exist_ok=True)
        self.path: Path = run_dir / "metrics.csv"
        rows = [row for row in read_rows(self.path) if int(row["env_steps"]) <= last_step]
        self.columns: list[str] = list(rows[0]) if rows else []
        write_rows(self.path, rows, self.columns)

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Append a row."""
        if missing := [name for name in row if name not in self.columns]:  # rare: an evaluation adds columns
            self.columns += missing
            write_rows(self.path, read_rows(self.path), self.columns)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns, restval="").writerow(
                {name: format_cell(value) for name, value in row.items()}
            )

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Do nothing: config.json has the configuration."""

    def log_video(self, file: Path, step: int) -> None:
        """Do nothing: the video is a file of the run already."""

    def close(self) -> None:
        """Do nothing: every row is written at once."""
