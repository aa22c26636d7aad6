"""The progress of a run: a table of its iterations and a line about the current task."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TextIO

from gpu_envs.utils.terminal import MARGIN, fit_table, is_terminal, shorten
from league.storage.run_store import RunStore

SHOWN = 15
"""Number of the latest iterations that a live table shows."""


class LiveTable:
    """Show the progress of a run: a live table in a terminal, otherwise plain lines.

    Use it in a `with` block and pass it to the run as its progress.
    """

    def __init__(self, store: RunStore, iterations: int, interval: float = 10.0, file: TextIO | None = None) -> None:
        """Make the table of a run.

        Args:
            store: Store of the run.
            iterations: Total number of iterations.
            interval: Time between two plain lines [s].
            file: Output file; None for standard error.
        """
        self.store: RunStore = store
        self.iterations: int = iterations
        self.interval: float = interval
        self.file: TextIO = sys.stderr if file is None else file
        self.last_printed = -float("inf")
        self.live: Any = None

    def __enter__(self) -> Self:
        """Open the table if the output is a terminal."""
        if is_terminal(self.file):
            from rich.console import Console
            from rich.live import Live

            # transient: the result or the interrupt follows, with all rows
            self.live = Live(console=Console(file=self.file), auto_refresh=False, transient=True)
            self.live.start()
            self.live.update(self._rich("starting; kernels are compiled first if they are not cached"), refresh=True)
        return self

    def __call__(self, done: int, text: str) -> None:
        """Show the current state."""
        now = time.monotonic()
        if self.live is not None:
            self.live.update(self._rich(text), refresh=True)
        elif now - self.last_printed >= self.interval:
            self.last_printed: float = now
            number = max(self.store.iterations(), default=-1) + 1
            print(f"iteration {min(number, self.iterations)} of {self.iterations}  {text}", file=self.file, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the table."""
        if self.live is not None:
            self.live.stop()

    def _rich(self, text: str) -> Any:
        from rich.text import Text

        width = max(self.live.console.width - MARGIN, 1)
        rows = list(self.store.iterations().values())
        title = f"{self.store.game.env_id}: {max(0, len(rows) - 1)} of {self.iterations} iterations"
        lines = [title, *(table(rows, width, SHOWN).splitlines() if rows else []), text]
        return Text("\n".join(shorten(line, width) for line in lines), no_wrap=True)


def table(rows: Sequence[Mapping[str, Any]], width: int | None = None, last: int | None = None) -> str:
    """Return the iterations of a run as aligned text: a row per iteration, or a row per player if that is too wide.

    Args:
        rows: Rows of the iterations.
        width: Number of columns of the terminal; None for any width.
        last: Number of the latest iterations to show; None for all.
    """
    head, *lines = cells(rows)
    text, count = fit_table([head, *lines[-last:]] if last else [head, *lines], width)
    notes = []
    if any(row.get("return") for row in rows):
        notes.append("of a player: return (score)")
    if last is None and count < len(lines):
        notes.append(f"the last {count} of {len(lines)} iterations; gpu-envs watch shows all")
    return "\n".join([*text, *notes])


def cells(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a header and one row per iteration: exploitability for PSRO, returns of players for leagues."""
    if any("meta_strategy" in row for row in rows):
        return _of_psro(rows)
    players = list(dict.fromkeys(name for row in rows for name in row["return"]))
    measures = ["NashConv"] if any(row.get("nash_conv") is not None for row in rows) else []
    lines = [["iteration", "players", *players, *measures, "changes", "seconds"]]
    for number, row in enumerate(rows):
        earned, scores = row["return"], row.get("score", {})
        row_cells = [
            f"{_number(earned[name], 2)} ({_number(scores.get(name), 2)})" if name in earned else "-"
            for name in players
        ]
        changes, seconds = row.get("changes", []), row.get("seconds")
        row_cells += [_number(row.get("nash_conv"), 4)] if measures else []
        lines.append([str(number), str(row.get("players", "-")), *row_cells, str(len(changes)), _number(seconds, 1)])
    return lines


def _of_psro(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the table of PSRO; in large games, with the gain of the next responses, a lower bound of NashConv."""
    has_nash_conv = any(row["nash_conv"] is not None for row in rows)
    recommends = has_nash_conv and any(row.get("ce_gap") is not None for row in rows)
    measures = ["NashConv", "exploitability", "best so far"] if has_nash_conv else ["gain of the next"]
    measures = ["CE gap", *measures] if recommends else measures
    lines = [["iteration", "policies", *measures, "episodes", "seconds"]]
    for number, row in enumerate(rows):
        values = [row["nash_conv"], row["exploitability"], row["best_nash_conv"]]
        if not has_nash_conv:
            values = [_gain_of_previous(rows[number + 1]) if number + 1 < len(rows) else None]
        values = [row.get("ce_gap"), *values] if recommends else values
        size = "/".join(str(count) for count in row["policies"].values())
        lines.append(
            [
                str(number),
                size,
                *(_number(value, 4) for value in values),
                f"{row['episodes']:,}",
                _number(row["seconds"], 1),
            ]
        )
    return lines


def _gain_of_previous(row: Mapping[str, Any]) -> float | None:
    """Return the gain of an iteration's policies against the meta-strategy before; with ce, after recommendations."""
    gain = row.get("previous_ce_gap_lower_bound")
    return row["previous_nash_conv_lower_bound"] if gain is None else gain


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value + 0.0:,.{digits}f}"
