"""CPU threads that share the work of a launch."""

import os
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from time import perf_counter, sleep

MIN_PARALLEL_SECONDS = 50e-6
"""Shortest single-threaded run [s] worth sharing; waking another thread takes about 30 µs."""

TRIAL_INTERVAL = 64
"""Runs before the first trial of the slower mode, in case it has become the faster one."""

MAX_TRIAL_INTERVAL = 4096
"""Most runs between two trials; the interval doubles with every trial that confirms the choice."""

TRIAL_RUNS = 8
"""Runs of a trial. A run that takes much longer than runs of the other mode counts as four."""

FIRST_RUNS = (2, 4)
"""Runs on one thread, and on several, before the first choice."""

WEIGHT = 0.05
"""Weight of a run in the average time of its mode."""


class ThreadWorker:
    """A thread that helps another one.

    A step of thousands of small worlds takes about 50 µs. The futures of an executor would take 20 µs of it.
    """

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
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

    def stop(self) -> None:
        """End the thread after the work that was started; do not use this object again."""
        self._inbox.put(None)

    def _loop(self) -> None:
        while (work := self._inbox.get()) is not None:
            work()
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
        self._recorded = [0, 0]  # runs of each mode
        self._runs, self._interval, self._trial = 0, TRIAL_INTERVAL, 0
        self._choice = False

    def parallel(self) -> bool:
        """Return whether the next run is to use several threads; the first runs try both modes."""
        single, threaded = self._recorded
        if single < FIRST_RUNS[0] or self._single < MIN_PARALLEL_SECONDS:
            return False
        if threaded < FIRST_RUNS[1]:
            return True
        better = self._parallel < self._single
        if better != self._choice:
            self._choice, self._runs, self._interval, self._trial = better, 0, TRIAL_INTERVAL, 0
        if not self._trial:
            self._runs += 1
            if self._runs < self._interval:
                return better
            self._runs, self._interval = 0, min(2 * self._interval, MAX_TRIAL_INTERVAL)
            self._trial = TRIAL_RUNS
        self._trial -= 1
        return not better

    def record(self, seconds: float, parallel: bool) -> None:
        """Record the time of a run.

        The average of several runs decides: beside another program, the time on several threads varies from run to
        run, because a worker may wait for its core.
        """
        runs = self._recorded[parallel] = self._recorded[parallel] + 1
        chosen = self._parallel if self._choice else self._single
        if runs > 1 and parallel != self._choice and seconds > 1.25 * chosen:
            self._trial = max(self._trial - 3, 0)
        usual = self._parallel if parallel else self._single
        if runs > 2:  # the first run also compiles, touches new memory or starts threads; the second one replaces it
            seconds = usual + max(WEIGHT, 1.0 / (runs - 1)) * (min(seconds, 2.0 * usual) - usual)
        if parallel:
            self._parallel = seconds
        else:
            self._single = seconds


class ThreadedRun:
    """One run of some work: by this thread alone, or by several threads that share a queue of its parts.

    Part 0 is the whole work; the other parts make it up. This thread takes parts from the front of the queue, the
    others take them from the end. A late or slow thread does less, and a part mostly stays in the cache of the same
    core.

    Args:
        perform: Function that does a part of the work, in any thread.
        num_parts: Number of parts, without the whole.
        threads: Number of threads.
        heuristic: Times of the earlier runs of this work.
        parallel: Use several threads; None asks the heuristic.
    """

    def __init__(
        self,
        perform: Callable[[int], None],
        num_parts: int,
        threads: int,
        heuristic: ThreadingHeuristic,
        parallel: bool | None = None,
    ) -> None:
        self._perform, self._num_parts, self._threads, self._heuristic = perform, num_parts, threads, heuristic
        self._forced = parallel
        self._queue: deque[int] = deque()
        self._errors: list[BaseException] = []
        self._workers: list[ThreadWorker] = []
        self._helping: list[None] = []  # an entry for every worker that performs parts

    def run(self) -> None:
        """Do all of the work.

        A signal handler may raise an exception at any line. It is raised once no thread works on this run any more;
        some parts may not have been performed then.
        """
        try:
            self._begin()
            self._work(self._queue.popleft)
            self._finish()
        except BaseException:
            self._settle()
            raise
        if self._errors:
            raise self._errors[0]
        self._heuristic.record(perf_counter() - self._start, self._parallel)

    def _begin(self) -> None:
        """Fill the queue and start the workers."""
        chosen = self._heuristic.parallel() if self._forced is None else self._forced
        self._parallel = self._threads > 1 and chosen
        self._start = perf_counter()
        queue = self._queue
        queue.extend(range(1, self._num_parts + 1) if self._parallel else (0,))
        if self._parallel:
            # The last of many short parts is quicker run here than waited for.
            reserved = 1 if len(queue) > 3 * self._threads else 0
            self._workers = acquire_workers(self._threads - 1)
            for worker in self._workers:
                worker.start(lambda: self._help(queue.pop, reserved))

    def _help(self, take: Callable[[], int], reserved: int) -> None:
        """Perform parts in a worker."""
        self._helping.append(None)  # before a part is taken, see _settle
        self._work(take, reserved)
        self._helping.pop()

    def _work(self, take: Callable[[], int], reserved: int = 0) -> None:
        """Perform parts until ``reserved`` are left in the queue; ``take`` removes one."""
        while len(self._queue) > reserved:
            try:
                part = take()
            except IndexError:  # another thread took the last one
                return
            try:
                self._perform(part)
            except BaseException as error:  # noqa: BLE001  # raised by run
                self._errors.append(error)

    def _finish(self) -> None:
        """Wait for the workers, and return them to the pool."""
        for worker in self._workers:
            worker.finish()
        workers, self._workers = self._workers, []
        release_workers(workers)

    def _settle(self) -> None:
        """After an exception, wait until no worker performs a part, and stop the workers.

        How far the exchange with a worker has come is unknown, so it does not go back to the pool. A worker that begins
        late finds an empty queue.
        """
        self._queue.clear()
        while self._helping:
            sleep(1e-4)
        for worker in self._workers:
            worker.stop()
