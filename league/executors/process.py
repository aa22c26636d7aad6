"""The executor that runs tasks in other processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle  # noqa: TID251  between processes of one run, as `concurrent.futures` does; nothing is kept
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from gpu_envs.definition.id_modules import named_modules
from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.utils.devices import resolve_device
from league.executors.remote_task import RemoteTask
from league.executors.transport import pack, packed, unpacked
from league.executors.worker import perform

__all__ = ["TRIES", "ProcessExecutor"]

TRIES = 4
"""Number of workers that try a task; each worker that dies is replaced."""
_STARTING = threading.Lock()  # environment variables are shared by all threads


@dataclass(eq=False)
class _Job:
    """A task in transport."""

    task: RemoteTask
    content: bytes
    """Pickled task; torch's pickling would use shared memory, which is scarce and outlives killed processes."""
    canceled: bool = False


class _ProcessWorker:
    """A process that starts at its first task; a pool of size one, so that the task of a dead process is known."""

    def __init__(self) -> None:
        self.pool: ProcessPoolExecutor | None = None
        self.pid = 0
        self.job: _Job | None = None

    def run(self, job: _Job) -> Any:
        """Return the packed result, or the error of the task."""
        if self.pool is None:
            with _safe_path():
                self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_begin)
                started = self.pool.submit(os.getpid)
            self.pid = started.result()
        if job.canceled:
            return None
        future = self.pool.submit(_perform, job.content)
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            raise error
        return pickle.loads(future.result()) if error is None else error

    def end(self) -> None:
        """Shut the process down."""
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None

    def kill(self) -> None:
        """Kill the process during its task."""
        if self.job is not None and self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class ProcessExecutor:
    """Run tasks in processes of this machine, one task per process at a time.

    A worker that dies is replaced, and its task runs again. Workers import the main module, so a script needs
    `if __name__ == "__main__":`. All workers share the GPU.
    """

    remote = True

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
        self._waiting: SimpleQueue[_Job | None] = SimpleQueue()
        self._finished: SimpleQueue[tuple[_Job, Any]] = SimpleQueue()
        self._jobs: list[_Job] = []
        self._serving: list[tuple[threading.Thread, _ProcessWorker]] = []

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
        job = _Job(task, pickle.dumps(content))
        self._jobs.append(job)
        self._waiting.put(job)
        if len(self._serving) < min(self.workers, len(self._jobs)):
            worker = _ProcessWorker()
            thread = threading.Thread(target=self._serve, args=(worker,), name=f"worker-{len(self._serving)}")
            thread.daemon = True
            self._serving.append((thread, worker))
            thread.start()

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
        return job.task.key, unpacked(outcome, "cpu")

    def cancel(self) -> None:
        """Remove all tasks; workers with a running task are killed."""
        for job in self._jobs:
            job.canceled = True
        self._jobs.clear()
        for _, worker in self._serving:
            worker.kill()

    def close(self) -> None:
        """Stop the workers."""
        self.cancel()
        for _ in self._serving:
            self._waiting.put(None)
        for thread, _ in self._serving:
            thread.join()
        self._serving.clear()

    def _serve(self, worker: _ProcessWorker) -> None:
        """Pass tasks to a worker, in a thread of this process."""
        while (job := self._waiting.get()) is not None:
            if not job.canceled:
                worker.job = job
                outcome = self._outcome(worker, job)
                worker.job = None
                self._finished.put((job, outcome))
        worker.end()

    def _outcome(self, worker: _ProcessWorker, job: _Job) -> Any:
        for _ in range(TRIES):
            try:
                return worker.run(job)
            except BrokenProcessPool:
                worker.end()
                if job.canceled:
                    return None
            except Exception as error:  # noqa: BLE001  raised by `next`
                return error
        return GpuEnvsError(
            f"{job.task.key}: {TRIES} workers died during this task (killed, or out of memory); check its memory, "
            "or use fewer workers"
        )


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Start processes without the working folder in their module search path, which `python -c` adds."""
    with _STARTING:
        previous = os.environ.get("PYTHONSAFEPATH")
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            yield
        finally:
            if previous is None:
                del os.environ["PYTHONSAFEPATH"]
            else:
                os.environ["PYTHONSAFEPATH"] = previous


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
