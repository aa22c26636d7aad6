"""Timing in alternation: noise of a shared machine hits every subject alike, and ratios of one round cancel it."""

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from benchmarks.peers.process import PeerError

T = TypeVar("T")


@runtime_checkable
class Player(Protocol):
    """A subject that times itself, such as one in a process of its own."""

    pid: int | None
    """Its process, whose work is not other people's; None for this one."""

    def turn(self, count: int) -> float:
        """Play so many steps, or a few more; gives the seconds that one took.

        Raises:
            PeerError: It cannot go on.
        """
        ...


Subject: TypeAlias = Callable[[], Any] | Player
"""A function of one step, or a player."""

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
    lost: dict[str, str] = field(default_factory=dict)  # who could not go on -> why; nothing of theirs is kept

    def ratio(self, over: str, under: str) -> Spread:
        """Quartiles of the ratios of rounds, time of ``over`` / time of ``under``."""
        return Spread.of([a / b for a, b in zip(self.seconds[over], self.seconds[under], strict=True)])


def alternate(
    subjects: Mapping[str, Subject],
    rounds: int = 15,
    seconds: float = 0.5,
    warm_up: float = 0.3,
    patience: float = PATIENCE,
) -> Rounds:
    """Time subjects in turn.

    Args:
        subjects: Name and function of one step, or player.
        rounds: How many rounds to keep, a turn of every subject each; the order is reversed in every other one.
        seconds: Length of a turn [s].
        warm_up: Length of the untimed first turn [s], which also finds out how many steps fill a turn.
        patience: How many times the rounds wanted to play at most, on a busy machine.

    Returns:
        The quiet rounds, or the least disturbed ones if there were too few. A player that cannot go on is out; the
        others play all the same.
    """
    order, lost = list(subjects), dict[str, str]()

    def turns(of: Callable[[str], T]) -> dict[str, T]:
        given = {}
        for name in [name for name in order if name not in lost]:
            try:
                given[name] = of(name)
            except PeerError as error:
                lost[name] = str(error)
        return given

    counts = turns(lambda name: max(1, round(seconds / _warm(subjects[name], warm_up))))

    def play() -> dict[str, float]:
        order.reverse()
        return turns(lambda name: _time(subjects[name], counts[name]))

    collecting = gc.isenabled()
    gc.disable()
    try:
        pids = [subject.pid for subject in subjects.values() if isinstance(subject, Player) and subject.pid]
        kept = undisturbed(play, rounds, patience, pids)
    finally:
        if collecting:
            gc.enable()
    seconds_of = {name: [times[name] for _, times in kept] for name in subjects if name not in lost}
    return Rounds(seconds_of, [others for others, _ in kept], lost)


def undisturbed(
    measure: Callable[[], T], wanted: int, patience: float = PATIENCE, pids: Iterable[int] = ()
) -> list[tuple[float, T]]:
    """Measure until so many times others were quiet, or patience is out; gives those, or the least disturbed.

    Args:
        measure: What to do.
        wanted: How many results to keep.
        patience: How many times as many to take at most.
        pids: Processes that belong to the measurement.

    Returns:
        For each the share of the machine that others used meanwhile, and the result.
    """
    seen: list[tuple[float, T]] = []
    ours = tuple(pids)
    while sum(others <= QUIET for others, _ in seen) < wanted and len(seen) < patience * wanted:
        before = _Usage.now(ours)
        result = measure()
        seen.append((_Usage.now(ours).others_since(before), result))
    return sorted(seen, key=lambda one: one[0])[:wanted]


def _warm(subject: Subject, seconds: float) -> float:
    """Play untimed for so long; gives the seconds that a step took at last."""
    begin, count = time.perf_counter(), 1
    while True:
        lasted = _time(subject, count)
        if count > 1 and time.perf_counter() - begin >= seconds:  # a first step may compile
            return lasted
        count *= 2


def _time(subject: Subject, count: int) -> float:
    if isinstance(subject, Player):
        return subject.turn(count)
    begin = time.perf_counter()
    for _ in range(count):
        subject()
    return (time.perf_counter() - begin) / count


@dataclass(frozen=True)
class _Usage:
    """CPU seconds used so far: by the whole machine (stolen time included), and by this measurement's processes."""

    wall: float
    machine: float
    own: float

    @classmethod
    def now(cls, pids: Iterable[int] = ()) -> "_Usage":
        """What this process, its children that have ended, and these others have used."""
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        user, nice, system, _idle, _wait, irq, softirq, steal, *_ = map(int, fields)
        mine = os.times()
        return cls(
            wall=time.perf_counter(),
            machine=(user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"),
            own=mine.user + mine.system + mine.children_user + mine.children_system + sum(map(_used_by, pids)),
        )

    def others_since(self, before: "_Usage") -> float:
        """Share of all cores that others used."""
        used = (self.machine - before.machine) - (self.own - before.own)
        return max(0.0, used) / (self.wall - before.wall) / (os.cpu_count() or 1)


def _used_by(pid: int) -> float:
    """CPU seconds of a process, all its threads together; none of one that has ended, whose seconds its parent has."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    # The name in brackets may hold anything: the fields are counted from behind it.
    fields = told.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
