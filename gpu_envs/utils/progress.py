"""Progress display of long work: a bar in a terminal, plain lines elsewhere."""

import importlib.util
import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO

from gpu_envs.utils.terminal import MARGIN, is_terminal, short_number, shorten

Progress = Callable[[int, str], None]
"""Function that shows the completed amount of long work and a short text, such as a `ProgressBar`."""

WIDE, NARROW = 120, 60
"""Widths of a terminal: from the first the bar is long, below the second there is none."""


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
        interval: Time between two plain lines [s]; the first and the last line are always printed.
        file: Output file, standard output by default. Commands whose output is a result use standard error.
    """

    def __init__(self, total: int, unit: str = "steps", interval: float = 10.0, file: TextIO | None = None) -> None:
        self.total: int = total
        self.unit: str = unit
        self.interval: float = interval
        self.file: TextIO | None = sys.stdout if file is None else file  # None in a process without output
        self._printed = -math.inf
        self._progress: Any = None
        self._live: Any = None

    def __enter__(self) -> Self:
        """Open the bar in a terminal."""
        if is_terminal(self.file) and importlib.util.find_spec("rich"):
            self._open()
        return self

    def __call__(self, done: int, text: str = "") -> None:
        """Show the completed amount and a short text."""
        if self._live is not None:
            completed = min(done, self.total)
            count = f"{short_number(completed)}/{short_number(self.total)} {self.unit}"
            self._progress.update(self._progress.task_ids[0], completed=completed, description=text, count=count)
        elif time.monotonic() - self._printed >= self.interval or done >= self.total:
            self._printed = time.monotonic()
            print(f"{done:>12,} / {self.total:,} {self.unit}  {text}".rstrip(), file=self.file, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the bar."""
        if self._live is not None:
            self._live.stop()

    def _open(self) -> None:
        """Show a line of percentage, bar, amount, remaining time and text; where space is short, the text is cut."""
        from rich.console import Console
        from rich.constrain import Constrain
        from rich.live import Live
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.table import Column

        console = Console(file=self.file)
        columns: list[ProgressColumn] = [
            TextColumn("{task.percentage:>3.0f}%", table_column=Column(no_wrap=True)),
            BarColumn(40 if console.width >= WIDE else 10),
            TextColumn("{task.fields[count]}", markup=False, table_column=Column(no_wrap=True)),
            _eta_column(Column(no_wrap=True)),
            _words_column(Column(no_wrap=True, ratio=1)),
        ]
        if console.width < NARROW:
            del columns[1]
        self._progress = Progress(*columns, console=console, expand=True)
        self._progress.add_task("", total=self.total, count=f"0/{short_number(self.total)} {self.unit}")
        self._live = Live(
            get_renderable=lambda: Constrain(
                self._progress.make_tasks_table(self._progress.tasks), max(console.width - MARGIN, 1)
            ),
            console=console,
            refresh_per_second=10,
        )
        self._live.start()


def _eta_column(table_column: Any) -> Any:
    """Return a column with the remaining time of a task."""
    from rich.progress import TimeRemainingColumn
    from rich.text import Text

    class Eta(TimeRemainingColumn):
        def render(self, task: Any) -> Any:
            return Text("ETA ") + super().render(task)

    return Eta(table_column=table_column)


def _words_column(table_column: Any) -> Any:
    """Return a column with the text of a task, cut between words where space is short."""
    from rich.measure import Measurement
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Cut:
        def __init__(self, text: str) -> None:
            self.text = text

        def __rich_console__(self, console: Any, options: Any) -> Any:
            yield Text(shorten(self.text, options.max_width), no_wrap=True)

        def __rich_measure__(self, console: Any, options: Any) -> Measurement:
            return Measurement(1, max(1, len(self.text)))

    class Words(ProgressColumn):
        def render(self, task: Any) -> Any:
            return Cut(task.description)

    return Words(table_column)
