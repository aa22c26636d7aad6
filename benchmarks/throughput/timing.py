"""Timing in alternation: noise of a shared machine affects all subjects alike and cancels in ratios."""

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
class TimedSubject(Protocol):
    """A subject that measures its own time, such as a process."""

    pid: int | None
    """Process ID of the subject, not counted as another process; None for this process."""

    def turn(self, count: int) -> float:
        """Run at least a number of steps and return the seconds per step.

        Raises:
            PeerError: The subject failed.
        """
        ...


Subject: TypeAlias = Callable[[], Any] | TimedSubject
"""A function of one step, or a subject that times itself."""

QUIET = 0.05
"""Maximum share of the machine used by other processes during a valid sample."""
PATIENCE = 4
"""Maximum number of samples, as a multiple of those wanted; then the least disturbed are kept."""


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: list[float]) -> "Spread":
        """Return the quartiles; a single sample gives all three."""
        low, median, high = statistics.quantiles(samples if len(samples) > 1 else samples * 2, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True)
class AlternatingSamples:
    """Samples of an alternating run, equal numbers for every subject."""

    seconds: dict[str, list[float]] = field(default_factory=dict)  # of one step, a sample per round
    disturbance: list[float] = field(default_factory=list)  # share of the machine that others used, per round
    lost: dict[str, str] = field(default_factory=dict)  # contender that failed -> reason; its samples are dropped

    def ratio(self, over: str, under: str) -> Spread:
        """Return quartiles of the ratios of samples, time of ``over`` / time of ``under``."""
        return Spread.of([a / b for a, b in zip(self.seconds[over], self.seconds[under], strict=True)])


def alternate(
    subjects: Mapping[str, Subject],
    rounds: int = 15,
    seconds: float = 0.5,
    warm_up: float = 0.3,
    patience: float = PATIENCE,
    pids: Iterable[int] = (),
) -> AlternatingSamples:
    """Time subjects in alternation.

    Args:
        subjects: Subjects by name.
        rounds: Number of samples per subject; the order is reversed every other time.
        seconds: Length of a turn [s].
        warm_up: Length of the untimed first turn [s], which also measures the number of steps per turn.
        patience: Maximum number of samples on a busy machine, as a multiple of those wanted.
        pids: Processes that belong to the measurement, apart from the subjects.

    Returns:
        The quiet samples, or the least disturbed ones if there are too few. A subject that fails is dropped, and the
        others continue.
    """
    order, lost = list(subjects), dict[str, str]()

    def turns(of: Callable[[str], T]) -> dict[str, T]:
        results = {}
        for name in [name for name in order if name not in lost]:
            try:
                results[name] = of(name)
            except PeerError as error:
                lost[name] = str(error)
        return results

    counts = turns(lambda name: max(1, round(seconds / _warm(subjects[name], warm_up))))

    def play() -> dict[str, float]:
        order.reverse()
        return turns(lambda name: _time(subjects[name], counts[name]))

    collecting = gc.isenabled()
    gc.disable()
    try:
        processes = [subject.pid for subject in subjects.values() if isinstance(subject, TimedSubject) and subject.pid]
        samples = undisturbed(play, rounds, patience, [*processes, *pids])
    finally:
        if collecting:
            gc.enable()
    seconds_of = {name: [times[name] for _, times in samples] for name in subjects if name not in lost}
    return AlternatingSamples(seconds_of, [usage for usage, _ in samples], lost)


def undisturbed(
    measure: Callable[[], T], count: int, patience: float = PATIENCE, pids: Iterable[int] = ()
) -> list[tuple[float, T]]:
    """Measure until enough quiet samples exist or patience is exhausted, and return the least disturbed.

    Args:
        measure: Function that returns one result.
        count: Number of results to keep.
        patience: Maximum number of results, as a multiple of `count`.
        pids: Processes that belong to the measurement.

    Returns:
        The share of the machine used by other processes and the result, for each.
    """
    samples: list[tuple[float, T]] = []
    measured = tuple(pids)
    while sum(usage <= QUIET for usage, _ in samples) < count and len(samples) < patience * count:
        start = _Usage.now(measured)
        result = measure()
        samples.append((_Usage.now(measured).others_since(start), result))
    return sorted(samples, key=lambda sample: sample[0])[:count]


def _warm(subject: Subject, seconds: float) -> float:
    """Run untimed for a duration after the first step, and return the seconds per step of the last call."""
    _time(subject, 1)  # may compile, or try settings
    begin, count = time.perf_counter(), 2
    while True:
        lasted = _time(subject, count)
        if time.perf_counter() - begin >= seconds:
            return lasted
        count *= 2


def _time(subject: Subject, count: int) -> float:
    if isinstance(subject, TimedSubject):
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
    measured: float

    @classmethod
    def now(cls, pids: Iterable[int] = ()) -> "_Usage":
        """Return the CPU time of this process, its ended children, and other given processes."""
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        user, nice, system, _idle, _wait, irq, softirq, steal, *_ = map(int, fields)
        mine = os.times()
        return cls(
            wall=time.perf_counter(),
            machine=(user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"),
            measured=mine.user + mine.system + mine.children_user + mine.children_system + sum(map(_used_by, pids)),
        )

    def others_since(self, start: "_Usage") -> float:
        """Return the share of all cores that other processes used."""
        used = (self.machine - start.machine) - (self.measured - start.measured)
        return max(0.0, used) / (self.wall - start.wall) / (os.cpu_count() or 1)


def _used_by(pid: int) -> float:
    """Return the CPU seconds of a process; 0 after its end, because its parent then has them."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    # The name in brackets may hold anything: the fields are counted from its end.
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
