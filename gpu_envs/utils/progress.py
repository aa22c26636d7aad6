"""Progress of long work: a bar in a terminal, plain lines elsewhere."""

import importlib.util
import math
import sys
import time
from types import TracebackType
from typing import Any, Self, TextIO


class ProgressBar:
    """A bar where the output is a terminal and rich is installed, else a plain line every few seconds.

    Use it in a ``with`` block, and call it with what is done so far::

        with ProgressBar(len(jobs), "jobs") as progress:
            for done, job in enumerate(jobs, start=1):
                job()
                progress(done, job.name)

    Args:
        total: What means "finished".
        unit: What is counted, such as "steps".
        every: Seconds between two plain lines; the first and the last always come.
        file: Where to; standard output if not given. Commands whose output is a result take standard error.
    """

    def __init__(self, total: int, unit: str = "steps", every: float = 10.0, file: TextIO | None = None) -> None:
        self.total, self.unit, self.every = total, unit, every
        self.file = sys.stdout if file is None else file
        self._printed = -math.inf
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        """Open the bar if there is a terminal."""
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
        """Show what is done so far, and a few words or figures."""
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
