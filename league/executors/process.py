"""The executor that runs tasks in other processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle  # noqa: TID251  between processes of one run, as `concurrent.futures` does; nothing is kept
import signal
import threading
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from gpu_envs.definition.id_modules import named_modules
from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.paths import safe_path
from league.executors.tasks import RemoteTask
from league.executors.transport import pack, packed, unpacked
from league.executors.worker import perform

SPAWN = multiprocessing.get_context("spawn")
"""Way in which workers start: without the memory of this process."""
TRIES = 4
"""Number of workers that try a task; each worker that dies is replaced."""


@dataclass(eq=False)
class _Job:
    """A task in transport."""

    key: str
    content: bytes
    """Pickled task; torch's pickling would use shared memory, which is scarce and outlives killed processes."""
    tries: int = 0
    """Number of workers that died during the task."""
    canceled: bool = False


class ProcessExecutor:
    """Run tasks in processes of this machine, one task per process at a time.

    A worker that dies is replaced, and its task runs again. Workers import the main module, so a script needs
    `if __name__ == "__main__":`. All workers share the GPU.
    """

    remote = True
    _lock = threading.RLock()
    """Held while workers get tasks, which threads of all executors do; starting one changes the environment."""

    def __init__(self, workers: int | None = None, threads: int = 1) -> None:
        """Create an executor; workers start with the first tasks.

        Args:
            workers: Number of processes; None: one per `threads` cores.
            threads: Number of torch threads per worker. Results are equal bit for bit for equal numbers of threads. Use
                `torch.set_num_threads(1)` in a run in one process to compare with it.

        Raises:
            ConfigError: `workers` or `threads` is below 1.
        """
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.workers: int = max(1, cores // max(threads, 1)) if workers is None else workers
        self.threads: int = threads
        if self.workers < 1 or threads < 1:
            raise ConfigError(f"workers and threads: expected at least 1, got {workers} and {threads}")
        self._jobs: list[_Job] = []  # submitted, and not returned
        self._waiting: deque[_Job] = deque()
        self._idle: list[ProcessPoolExecutor] = []
        # a worker is a pool of size one, so that the task of a dead process is known
        self._busy: dict[ProcessPoolExecutor, _Job] = {}
        self._finished: SimpleQueue[tuple[_Job, Any]] = SimpleQueue()

    def device(self, name: str | None) -> str:
        """Return a device of this machine, see `Executor.device`."""
        return str(resolve_device(name))

    @property
    def pending(self) -> int:
        """Number of tasks whose results were not returned."""
        return len(self._jobs)

    def submit(self, task: RemoteTask) -> None:
        """Queue a task for the next free worker."""
        pools = {role: [pack(policy) for policy in pool] for role, pool in task.policies.items()}
        content = (task.function, pools, packed(dict(task.arguments)), task.device, self.threads, named_modules())
        job = _Job(task.key, pickle.dumps(content))
        self._jobs.append(job)
        with self._lock:
            self._waiting.append(job)
            self._start_waiting()

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Wait for the next task to finish and return its key and result, or raise its error."""
        if not self._jobs:
            raise IndexError("no task was submitted")
        while True:
            try:
                job, outcome = self._finished.get(timeout=within)
            except Empty:
                return None
            if not job.canceled:
                break
        self._jobs.remove(job)
        if isinstance(outcome, BaseException):
            raise outcome
        return job.key, unpacked(pickle.loads(outcome), "cpu")

    def cancel(self) -> None:
        """Remove all tasks; workers with a running task are killed."""
        with self._lock:
            for job in self._jobs:
                job.canceled = True
            self._jobs.clear()
            self._waiting.clear()
            for worker in self._busy:
                for process in worker._processes.values():
                    process.kill()

    def close(self) -> None:
        """Stop the workers."""
        self.cancel()
        for worker in (*self._busy, *self._idle):
            worker.shutdown()
        self._idle.clear()

    def _start_waiting(self) -> None:
        """Pass waiting tasks to idle or new workers."""
        while self._waiting and (self._idle or len(self._busy) < self.workers):
            job = self._waiting[0]
            try:
                with safe_path():  # the queues of a pool start Python's resource tracker, its first task the worker
                    worker = self._idle.pop() if self._idle else ProcessPoolExecutor(1, SPAWN, initializer=_begin)
                    future = worker.submit(_perform, job.content)
            except BrokenProcessPool:  # it died without a task
                continue
            self._busy[worker] = self._waiting.popleft()
            future.add_done_callback(partial(self._end, worker))

    def _end(self, worker: ProcessPoolExecutor, future: Future[bytes]) -> None:
        """Note the outcome of a worker's task, or queue the task again if the worker died."""
        error = future.exception()
        with self._lock:
            job = self._busy.pop(worker)
            if not isinstance(error, BrokenProcessPool):
                self._idle.append(worker)
                self._finished.put((job, future.result() if error is None else error))
            elif job.tries + 1 < TRIES and not job.canceled:
                job.tries += 1
                self._waiting.appendleft(job)
            else:
                message = (
                    f"{job.key}: {TRIES} workers died during this task (killed, or out of memory); check its memory, "
                    "or use fewer workers"
                )
                self._finished.put((job, GpuEnvsError(message)))
            self._start_waiting()


def _perform(content: bytes) -> bytes:
    """Run a pickled task in a worker."""
    return pickle.dumps(perform(*pickle.loads(content)))


def _begin() -> None:
    """Prepare a worker: it ignores what a terminal sends to all its processes, and exits with its parent process."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
