"""Timing in alternation: noise of a shared machine hits every subject alike, and ratios of one round cancel it."""

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

QUIET = 0.05
"""A round counts if other processes used at most this share of the machine meanwhile."""
PATIENCE = 4
"""Give up waiting for quiet after so many times the rounds wanted, and keep the least disturbed ones."""


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: list[float]) -> "Spread":
        """Quartiles; a single sample is all three."""
        low, median, high = statistics.quantiles(samples if len(samples) > 1 else samples * 2, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True)
class Rounds:
    """Samples of an alternating run, the same rounds for every subject."""

    seconds: dict[str, list[float]] = field(default_factory=dict)  # of one step, a sample per round
    disturbance: list[float] = field(default_factory=list)  # share of the machine that others used, per round

    def ratio(self, over: str, under: str) -> Spread:
        """Quartiles of the ratios of rounds, time of ``over`` / time of ``under``."""
        return Spread.of([a / b for a, b in zip(self.seconds[over], self.seconds[under], strict=True)])


def alternate(
    subjects: Mapping[str, Callable[[], Any]], rounds: int = 15, seconds: float = 0.5, warm_up: float = 0.3
) -> Rounds:
    """Time step functions in turn.

    Args:
        subjects: Name and function of one step.
        rounds: How many rounds to keep, a turn of every subject each; the order is reversed in every other one.
        seconds: Length of a turn [s].
        warm_up: Length of the untimed first turn [s], which also finds out how many steps fill a turn.

    Returns:
        The quiet rounds, or the least disturbed ones if there were too few.
    """
    counts = {}
    for name, step in subjects.items():
        begin, done = time.perf_counter(), 0
        while done < 3 or time.perf_counter() - begin < warm_up:
            step()
            done += 1
        counts[name] = max(3, round(seconds / _time(step, done)))
    order = list(subjects)

    def play() -> dict[str, float]:
        order.reverse()
        return {name: _time(subjects[name], counts[name]) for name in order}

    collecting = gc.isenabled()
    gc.disable()
    try:
        kept = undisturbed(play, rounds)
    finally:
        if collecting:
            gc.enable()
    return Rounds({name: [times[name] for _, times in kept] for name in subjects}, [others for others, _ in kept])


def undisturbed(measure: Callable[[], T], wanted: int) -> list[tuple[float, T]]:
    """Measure until so many times others were quiet, or patience is out; gives those, or the least disturbed.

    Returns:
        For each the share of the machine that others used meanwhile, and the result.
    """
    seen: list[tuple[float, T]] = []
    while sum(others <= QUIET for others, _ in seen) < wanted and len(seen) < PATIENCE * wanted:
        before = _Usage.now()
        result = measure()
        seen.append((_Usage.now().others_since(before), result))
    return sorted(seen, key=lambda one: one[0])[:wanted]


def _time(step: Callable[[], Any], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - begin) / count


@dataclass(frozen=True)
class _Usage:
    """CPU seconds used so far: by the whole machine (stolen time included), and by this process and its children."""

    wall: float
    machine: float
    own: float

    @classmethod
    def now(cls) -> "_Usage":
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        user, nice, system, _idle, _wait, irq, softirq, steal, *_ = map(int, fields)
        mine = os.times()
        return cls(
            wall=time.perf_counter(),
            machine=(user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"),
            own=mine.user + mine.system + mine.children_user + mine.children_system,
        )

    def others_since(self, before: "_Usage") -> float:
        """Share of all cores that others used."""
        used = (self.machine - before.machine) - (self.own - before.own)
        return max(0.0, used) / (self.wall - before.wall) / (os.cpu_count() or 1)
