"""CPU threads that share the work of a launch."""

import os
from _thread import allocate_lock
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

__all__ = [
    "MIN_PARALLEL_SECONDS",
    "TRIAL_INTERVAL",
    "ThreadWorker",
    "ThreadingHeuristic",
    "acquire_workers",
    "release_workers",
]

MIN_PARALLEL_SECONDS = 50e-6
"""Shortest single-threaded run [s] worth sharing; waking another thread takes about 30 µs."""

TRIAL_INTERVAL = 64
"""Runs between trials of the slower mode, in case it has become the faster one."""


class ThreadWorker:
    """A thread that helps another one.

    A step of thousands of small worlds takes about 50 µs. The futures of an executor would take 20 µs of it.
    """

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._finished = allocate_lock()
        self._finished.acquire()
        Thread(target=self._loop, name="gpu_envs", daemon=True).start()

    def start(self, work: Callable[[], None]) -> None:
        """Start to work; return at once."""
        self._inbox.put(work)

    def finish(self) -> None:
        """Wait until the started work ends; cancel it if the thread has not begun, because its core is busy."""
        try:
            self._inbox.get_nowait()
        except Empty:
            self._finished.acquire()

    def _loop(self) -> None:
        while True:
            self._inbox.get()()
            self._finished.release()


_idle: list[ThreadWorker] = []
"""Workers shared by all environments of the process; a fork has none."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def acquire_workers(count: int) -> list[ThreadWorker]:
    """Take ``count`` workers out of the pool; return them with :func:`release_workers`."""
    workers = []
    for _ in range(count):
        try:
            workers.append(_idle.pop())
        except IndexError:
            workers.append(ThreadWorker())
    return workers


def release_workers(workers: list[ThreadWorker]) -> None:
    """Put workers back into the pool."""
    _idle.extend(workers)


class ThreadingHeuristic:
    """Choose between one thread and several by the times that earlier runs took.

    The times depend on the rules, the batch size and the load of the machine.
    """

    def __init__(self) -> None:
        self._single = self._parallel = 0.0  # [s]; 0 before the first run
        self._runs = 0

    def parallel(self) -> bool:
        """Return whether the next run is to use several threads."""
        self._runs += 1
        if self._single < MIN_PARALLEL_SECONDS:
            return False
        return (self._parallel < self._single) != (self._runs % TRIAL_INTERVAL == 0)

    def record(self, seconds: float, parallel: bool) -> None:
        """Record the time of a run. A single slow run raises the recorded time by 10 % at most."""
        usual = self._parallel if parallel else self._single
        if usual:
            seconds = min(seconds, 1.1 * usual)
        if parallel:
            self._parallel = seconds
        else:
            self._single = seconds
