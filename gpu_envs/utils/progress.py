"""Progress display of long work: a bar in a terminal, plain lines elsewhere."""

import importlib.util
import math
import sys
import time
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

__all__ = ["Progress", "ProgressBar"]


class ProgressBar:
    """Progress bar in a terminal with rich installed, else a plain line every few seconds.

    Use it in a ``with`` block, and call it with the completed amount::

        with ProgressBar(len(jobs), "jobs") as progress:
            for done, job in enumerate(jobs, start=1):
                job()
                progress(done, job.name)

    Args:
        total: Amount of work.
        unit: Unit of the amount, such as "steps".
        every: Time between two plain lines [s]; the first and the last line are always printed.
        file: Output file, standard output by default. Commands whose output is a result use standard error.
    """

    def __init__(self, total: int, unit: str = "steps", every: float = 10.0, file: TextIO | None = None) -> None:
        self.total: int = total
        self.unit: str = unit
        self.every: float = every
        self.file: TextIO = sys.stdout if file is None else file
        self._printed = -math.inf
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        """Open the bar in a terminal."""
        if self.file.isatty() and importlib.util.find_spec("rich"):
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(self.unit),
                TimeRemainingColumn(),
                TextColumn("{task.description}", markup=False),
            )
            self._bar = Progress(*columns, console=Console(file=self.file))
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total)
        return self

    def __call__(self, done: int, text: str = "") -> None:
        """Show the completed amount and a short text."""
        if self._bar is not None:
            self._bar.update(self._task, completed=min(done, self.total), description=text)
        elif time.monotonic() - self._printed >= self.every or done >= self.total:
            self._printed = time.monotonic()
            print(f"{done:>12,} / {self.total:,} {self.unit}  {text}".rstrip(), file=self.file, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.stop()


class Progress(Protocol):
    """Function to which long work reports its progress."""

    def __call__(self, done: int, text: str) -> None:
        """Show the completed amount and a short text."""
        ...
