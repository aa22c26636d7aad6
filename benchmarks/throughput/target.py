"""Performance targets: groups of figures that are measured together and compared with thresholds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.throughput.timing import PATIENCE


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    repeats: int = 15
    seconds: float = 0.5  # of a turn
    memory_steps: int = 1_000_000
    compiles: int = 3
    patience: float = PATIENCE  # rounds played at most, as a multiple of those wanted


NOISE = "other processes meanwhile"
"""Name of the figure of the noise."""
BENCH = Effort(repeats=7, seconds=0.25, patience=1.5)
"""Effort of `make bench`."""


@dataclass(frozen=True)
class Figure:
    """One measured line of the report."""

    what: str
    unit: str
    value: float | None  # None where it could not be measured: the note says why
    low: float | None = None  # quartiles
    high: float | None = None
    target: str = ""  # ">= 0.45", "" where nothing is promised
    note: str = ""
    curve: str = ""  # of the group's picture, "" where the figure is not in it
    at: float | None = None  # place on that curve
    along: str = "agents in a world"  # what the places are
    row: dict[str, Any] | None = None  # of a comparison with peers: see comparison.py

    @property
    def met(self) -> bool | None:
        """Return whether the target is met; None without a target."""
        return None if not self.target or self.value is None else self.margin >= 0

    @property
    def margin(self) -> float:
        """Return the distance of the value from the target, positive if it is met; 0 without a target or value."""
        if not self.target or self.value is None:
            return 0.0
        sense, limit = self.target.split()
        return self.value - float(limit) if sense == ">=" else float(limit) - self.value


@dataclass(frozen=True)
class PerformanceTarget:
    """A group of figures measured together. ``measure(effort)`` yields them."""

    id: str
    title: str
    measure: Callable[[Effort], Iterator[Figure]]
    promised: tuple[Figure, ...] = ()
    """Targets of a comparison without values; unmeasured targets are listed, too."""
