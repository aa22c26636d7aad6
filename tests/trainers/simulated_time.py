"""A clock for threads, which moves only while all of them sleep or wait: figures of it do not depend on the machine."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from typing import Any


class SimulatedTime:
    """Stands in for the module `time` in the modules that a test names.

    All threads that take part are awake at first.
    """

    def __init__(self, threads: int) -> None:
        self.now = 0.0
        self.awake = threads
        self.changed = threading.Condition()
        self._ends: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter

    def sleep(self, seconds: float) -> None:
        with self.changed:
            end = self.now + seconds
            heapq.heappush(self._ends, end)
            self.suspend()
            self.changed.wait_for(lambda: self.now >= end)

    def suspend(self) -> None:
        """Count the calling thread as one that waits; the last one moves the clock to the next end of a sleep."""
        with self.changed:
            self.awake -= 1
            if self.awake or not self._ends:
                return
            self.now = self._ends[0]
            while self._ends and self._ends[0] <= self.now:
                heapq.heappop(self._ends)
                self.awake += 1
            self.changed.notify_all()

    def condition(self) -> Any:
        """Return what stands in for a `threading.Condition` at which the threads wait for each other."""
        return _Condition(self)


class _Condition:
    def __init__(self, time: SimulatedTime) -> None:
        self.time, self.waiting, self.notified = time, 0, 0

    def __enter__(self) -> None:
        self.time.changed.acquire()

    def __exit__(self, *_: object) -> None:
        self.time.changed.release()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        while not (result := predicate()):
            self._wait()
        return result

    def _wait(self) -> None:
        notified = self.notified
        self.waiting += 1
        self.time.suspend()
        self.time.changed.wait_for(lambda: self.notified > notified)

    def notify_all(self) -> None:
        self.time.awake += self.waiting
        self.waiting, self.notified = 0, self.notified + 1
        self.time.changed.notify_all()
