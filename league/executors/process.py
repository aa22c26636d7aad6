"""Calls done in other processes of this machine."""

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

from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.factory import resolve_device
from gpu_envs.id_modules import named_modules
from league.executors.calls import Call, pack, packed, unpacked
from league.executors.worker import perform

TRIES = 4
"""How often a call is given to a worker, each time another after it has killed the one before."""
_STARTING = threading.Lock()  # the environment is that of all threads


@dataclass(eq=False)
class _Job:
    """A call as it travels."""

    call: Call
    content: bytes
    """Of plain pickle: torch would pass tensors on in shared memory, which is scarce and outlives who is killed."""
    given_up: bool = False


class _Worker:
    """A process, started when it is needed; a pool of one, so that it is known what it was at when it died."""

    def __init__(self) -> None:
        self.pool: ProcessPoolExecutor | None = None
        self.pid = 0
        self.job: _Job | None = None

    def run(self, job: _Job) -> Any:
        """The packed result, or the error that the call ended with."""
        if self.pool is None:
            with _safe_path():
                self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_begin)
                started = self.pool.submit(os.getpid)
            self.pid = started.result()
        if job.given_up:
            return None
        future = self.pool.submit(_perform, job.content)
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            raise error
        return pickle.loads(future.result()) if error is None else error

    def end(self) -> None:
        """Lets it go."""
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None

    def kill(self) -> None:
        """Ends it in the middle of its call."""
        if self.job is not None and self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class ProcessExecutor:
    """Does calls in processes of this machine, each with one call at a time, whichever is free.

    A worker that dies is replaced and its call done again. Workers import what they are to do: a script that uses them
    has its work under `if __name__ == "__main__":`. On a GPU all of them share it.
    """

    remote = True

    def __init__(self, workers: int | None = None, threads: int = 1) -> None:
        """Starts nothing before the first call.

        Args:
            workers: None: one for each core (for each `threads` cores).
            threads: Torch's in a worker. What comes out is the same bit for bit where as many are used, so a run that
                is to equal one in a single process has one there, too (`torch.set_num_threads(1)`).

        Raises:
            ConfigError: Workers or threads below 1.
        """
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.workers, self.threads = max(1, cores // max(threads, 1)) if workers is None else workers, threads
        if self.workers < 1 or threads < 1:
            raise ConfigError(f"workers = {workers}, threads = {threads}: expected at least 1")
        self._waiting: SimpleQueue[_Job | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[_Job, Any]] = SimpleQueue()
        self._jobs: list[_Job] = []
        self._serving: list[tuple[threading.Thread, _Worker]] = []

    def device(self, asked: str | None) -> str:
        """One of this machine."""
        return str(resolve_device(asked))

    @property
    def pending(self) -> int:
        """Calls whose results were not given back yet."""
        return len(self._jobs)

    def submit(self, call: Call) -> None:
        """Takes a call; the first worker that is free does it."""
        pools = {role: [pack(one) for one in pool] for role, pool in call.pools.items()}
        content = (call.function, pools, packed(dict(call.arguments)), call.device, self.threads, named_modules())
        job = _Job(call, pickle.dumps(content))
        self._jobs.append(job)
        self._waiting.put(job)
        if len(self._serving) < min(self.workers, len(self._jobs)):
            worker = _Worker()
            thread = threading.Thread(target=self._serve, args=(worker,), name=f"worker-{len(self._serving)}")
            thread.daemon = True
            self._serving.append((thread, worker))
            thread.start()

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Waits for the first that ends; raises what it raised."""
        if not self._jobs:
            raise IndexError("no call was submitted")
        while True:
            try:
                job, outcome = self._ended.get(timeout=within)
            except Empty:
                return None
            if not job.given_up:
                break
        self._jobs.remove(job)
        if isinstance(outcome, BaseException):
            raise outcome
        return job.call.key, unpacked(outcome, "cpu")

    def cancel(self) -> None:
        """Forgets all calls; workers that are in the middle of one are killed."""
        for job in self._jobs:
            job.given_up = True
        self._jobs.clear()
        for _, worker in self._serving:
            worker.kill()

    def close(self) -> None:
        """Ends the workers."""
        self.cancel()
        for _ in self._serving:
            self._waiting.put(None)
        for thread, _ in self._serving:
            thread.join()
        self._serving.clear()

    def _serve(self, worker: _Worker) -> None:
        """A thread of this process: gives a worker one call after the other."""
        while (job := self._waiting.get()) is not None:
            if not job.given_up:
                worker.job = job
                outcome = self._outcome(worker, job)
                worker.job = None
                self._ended.put((job, outcome))
        worker.end()

    def _outcome(self, worker: _Worker, job: _Job) -> Any:
        for _ in range(TRIES):
            try:
                return worker.run(job)
            except BrokenProcessPool:
                worker.end()
                if job.given_up:
                    return None
            except Exception as error:  # noqa: BLE001  it is raised where results are asked for
                return error
        return GpuEnvsError(
            f"{job.call.key}: {TRIES} workers have died over this call (killed, or out of memory); see what it needs, "
            "or use fewer workers"
        )


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Start processes that do not search the working folder for Python's own modules, as `python -c` does."""
    with _STARTING:
        before = os.environ.get("PYTHONSAFEPATH")
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ["PYTHONSAFEPATH"]
            else:
                os.environ["PYTHONSAFEPATH"] = before


def _perform(content: bytes) -> bytes:
    """In a worker."""
    return pickle.dumps(perform(*pickle.loads(content)))


def _begin() -> None:
    """In a worker: it ends with the process that has it, and leaves interrupts to that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
