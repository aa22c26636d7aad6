"""Iterations of a league for the loggers of `trainers.loggers`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from gpu_envs.utils.progress import Progress
from league.storage.run_store import RunStore
from trainers.loggers.logger import CSV, Loggers, logger_classes
from trainers.storage.seed_metrics import write_rows

FILE = "iterations.csv"
"""File of the logger "csv": a row per iteration."""
INTERVAL = 1.0
"""Shortest time between two looks into the store [s]."""


class IterationLog:
    """Progress of a run that lets loggers record the numbers of every new iteration, within its `with` block.

    A value that is computed later, such as NashConv by another process, is recorded when it is there, at the step of
    its iteration.
    """

    def __init__(self, store: RunStore, names: Sequence[str], progress: Progress | None = None) -> None:
        """Find the loggers.

        Args:
            store: Store of the run.
            names: Names of the loggers, see `trainers.loggers.logger`.
            progress: Called with every progress, too.

        Raises:
            ConfigError: A logger of your own is not imported, or is no logger.
            MissingExtraError: The library of a logger is not installed.
        """
        self.store: RunStore = store
        self.progress: Progress | None = progress
        self.has_file: bool = CSV in names
        self.classes: list[type[Any]] = logger_classes([name for name in names if name != CSV])
        self.loggers: Loggers | None = None
        self.recorded: dict[int, dict[str, float]] = {}
        self._last_look = 0.0

    def __enter__(self) -> IterationLog:
        """Open the loggers; earlier iterations are known to them."""
        self.recorded = self._rows()
        self.loggers = Loggers(self.classes, self.store.path, max(self.recorded, default=0), self.store.config)
        return self

    def __call__(self, done: int, text: str) -> None:
        """Record new iterations."""
        now = time.monotonic()
        if self.loggers is not None and now - self._last_look >= INTERVAL:
            self._last_look = now
            self.record()
        if self.progress is not None:
            self.progress(done, text)

    def record(self) -> None:
        """Record what the loggers do not have yet."""
        assert self.loggers is not None
        if not (self.has_file or self.classes):
            return
        rows = self._rows()
        for number, row in rows.items():
            earlier = self.recorded.get(number, {})
            if changes := {name: value for name, value in row.items() if earlier.get(name) != value}:
                self.loggers.log({"iteration": number, **changes}, number)
        if self.has_file and (rows != self.recorded or not (self.store.path / FILE).exists()):
            table = [{"iteration": number, **row} for number, row in rows.items()]
            write_rows(self.store.path / FILE, table)
        self.recorded = rows

    def _rows(self) -> dict[int, dict[str, float]]:
        return {number: dict(_numbers(summary)) for number, summary in self.store.iterations().items()}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Record the last iterations, and close the loggers."""
        assert self.loggers is not None
        try:
            if error is None:
                self.record()
        finally:
            self.loggers.close()
            self.loggers = None


def _numbers(summary: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of an iteration, those of players and roles as "return/PLAYER"; lists are left out."""
    for name, value in summary.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", value
