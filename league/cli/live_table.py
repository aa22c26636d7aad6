"""What a run shows while it goes on: a table of its iterations, and a line about what it is doing."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TextIO

from league.store import Store

SHOWN = 15
"""Iterations that a live table shows, the last ones."""


class LiveTable:
    """A table that grows where the output is a terminal and rich is installed, else plain lines.

    Use it in a `with` block, and give it to a run as its progress.
    """

    def __init__(self, store: Store, iterations: int, every: float = 10.0, file: TextIO | None = None) -> None:
        """A table of a run.

        Args:
            store: Of the run.
            iterations: How many there are to be.
            every: Seconds between two plain lines.
            file: Where to; standard error if not given.
        """
        self.store, self.iterations, self.every = store, iterations, every
        self.file = sys.stderr if file is None else file
        self.told, self.shown = -float("inf"), 0
        self.live: Any = None

    def __enter__(self) -> Self:
        """Opens the table if there is a terminal."""
        if self.file.isatty() and importlib.util.find_spec("rich"):
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(file=self.file), auto_refresh=False, transient=True)
            self.live.start()
        return self

    def __call__(self, done: int, text: str) -> None:
        """Shows what is new."""
        now = time.monotonic()
        if self.live is not None:
            self.live.update(self._rich(text), refresh=True)
        elif now - self.told >= self.every:
            self.told = now
            number = max(self.store.iterations(), default=-1) + 1
            print(f"iteration {min(number, self.iterations)} of {self.iterations}  {text}", file=self.file, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the table."""
        if self.live is not None:
            self.live.stop()

    def _rich(self, text: str) -> Any:
        from rich.table import Table

        head, *lines = cells(list(self.store.iterations().values()))
        shown = Table(*head, title=f"{self.store.game.env_id}, {self.iterations} iterations", caption=text)
        for line in lines[-SHOWN:]:
            shown.add_row(*line)
        return shown


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The iterations of a run as aligned text."""
    lines = cells(rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])


def cells(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A head and a line per iteration: of PSRO exploitability, of leagues what players earned."""
    if any("meta_strategy" in row for row in rows):
        return _of_psro(rows)
    players = list(dict.fromkeys(name for row in rows for name in row["return"]))
    known = ["NashConv"] if any(row.get("nash_conv") is not None for row in rows) else []
    lines = [["iteration", "players", *(f"{name} return (score)" for name in players), *known, "changes", "seconds"]]
    for number, row in enumerate(rows):
        earned, scores = row["return"], row.get("score", {})
        told = [
            f"{_number(earned[name], 2)} ({_number(scores.get(name), 2)})" if name in earned else "-"
            for name in players
        ]
        changes, seconds = row.get("changes", []), row.get("seconds")
        told += [_number(row.get("nash_conv"), 4)] if known else []
        lines.append([str(number), str(row.get("players", "-")), *told, str(len(changes)), _number(seconds, 1)])
    return lines


def _of_psro(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Where the game is too large for its NashConv, what the next responses gain: less than it, but for their noise."""
    known = any(row["nash_conv"] is not None for row in rows)
    measures = ["NashConv", "exploitability", "best so far"] if known else ["gain of the next"]
    lines = [["iteration", "policies", *measures, "episodes", "seconds"]]
    for number, row in enumerate(rows):
        values = [row["nash_conv"], row["exploitability"], row["best_so_far"]]
        if not known:
            values = [rows[number + 1]["previous_nash_conv_lower"] if number + 1 < len(rows) else None]
        size = "/".join(str(count) for count in row["policies"].values())
        lines.append(
            [
                str(number),
                size,
                *(_number(each, 4) for each in values),
                f"{row['episodes']:,}",
                _number(row["seconds"], 1),
            ]
        )
    return lines


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
