"""The executor that runs tasks on a Ray cluster."""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import os
import sys
import time
import warnings
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from gpu_envs.definition.id_modules import named_modules
from gpu_envs.errors import ConfigError, DeviceError, GpuEnvsError
from gpu_envs.utils.lru_cache import LRUCache
from league.executors.remote_task import RemoteTask
from league.executors.transport import PayloadRef, PolicyPayload, each, pack, packed, unpacked
from league.executors.worker import perform
from trainers.cluster.connect import connect, ray_library
from trainers.config.train_config import CUBLAS

__all__ = ["MAX_PAYLOADS", "RESOURCE_INTERVAL", "RETRIES", "SHARING", "SUBMITTED_PER_RUNNING", "RayExecutor"]

RETRIES = 3
"""Number of retries by Ray of a task whose worker or node died."""
SUBMITTED_PER_RUNNING = 2
"""Submitted tasks per running task, so that a free worker finds the next one without the coordinator."""
SHARING = 4
"""Default of the largest number of learners on a GPU."""
RESOURCE_INTERVAL = 5.0
"""Interval between two queries of the cluster's resources [s]."""
MAX_PAYLOADS = 1024
"""Number of policy payloads in the object store."""


@dataclass(eq=False)
class _Running:
    """A task that was submitted to Ray."""

    task: RemoteTask
    ref: Any


class RayExecutor:
    """Run tasks on the free workers of a Ray cluster.

    Ray retries tasks whose workers or nodes died, and uses new nodes as they join. Ray tasks are used instead of
    actors, since an actor of a lost node waits for resources of its own, and a new node has no actors. Ray keeps the
    processes of tasks, so that policies, worlds and CUDA contexts are reused. On nodes with several GPUs a process runs
    one task only, since the next task can get another GPU. A policy is put into the object store once, and fetched by
    workers that have not cached it.
    """

    remote = True

    def __init__(self, address: str | None = "auto", gpus_per_learner: float | None = None, threads: int = 1) -> None:
        """Connect to a cluster.

        Args:
            address: Address of the cluster, see `trainers.cluster.connect`.
            gpus_per_learner: Share of a GPU for a training on a GPU; other tasks get half of it. None: the cluster's
                GPUs per core, at least a quarter.
            threads: Number of torch threads and of cores per task. Results are equal bit for bit for equal numbers of
                threads. Use `torch.set_num_threads(1)` in a run in one process to compare with it.

        Raises:
            MissingExtraError: Ray is not installed.
            ConfigError: A share is out of range, or `threads` is below 1.
            GpuEnvsError: The cluster does not exist.
        """
        library = ray_library("RayExecutor")
        if gpus_per_learner is not None and not 0.001 <= gpus_per_learner <= 1:
            raise ConfigError(f"gpus_per_learner: expected a share in [0.001, 1] or None, got {gpus_per_learner}")
        if threads < 1:
            raise ConfigError(f"threads: expected at least 1, got {threads}")
        self._connected = not library.is_initialized()
        self._ray = connect("RayExecutor", address)
        self.address: str | None = address
        self.threads: int = threads
        self.waited: float = 0.0
        """Time spent waiting for workers [s]."""
        self._requested_share = gpus_per_learner
        self._perform = self._ray.remote(_perform)
        self._perform_once = self._ray.remote(max_calls=1)(_perform)  # in a process of its own
        self._queue: deque[RemoteTask] = deque()
        self._running: dict[Future[Any], _Running] = {}
        self._finished: SimpleQueue[Future[Any]] = SimpleQueue()
        self._payload_handles: LRUCache[str, Any] = LRUCache(max_items=MAX_PAYLOADS)
        self._updated_at, self._warned = -RESOURCE_INTERVAL, False
        self._update_resources()

    def _update_resources(self) -> None:
        """Query the resources of the cluster."""
        if time.monotonic() - self._updated_at > RESOURCE_INTERVAL:
            nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self._updated_at = time.monotonic()
            self.cpus: int = sum(int(node.get("CPU", 0)) for node in nodes)
            self.gpus: int = sum(node.get("GPU", 0) for node in nodes)
            self._usable_nodes = [node for node in nodes if node.get("CPU", 0) >= self.threads]
            self._has_multi_gpu_node = any(node.get("GPU", 0) > 1 for node in nodes)

    @property
    def gpus_per_learner(self) -> float:
        """Share of a GPU for a training on a GPU; 0 without GPUs."""
        if not self.gpus:
            return 0.0
        if self._requested_share is not None:
            return self._requested_share
        return 1 / max(1, min(SHARING, int(self.cpus / self.threads / self.gpus)))

    def gpus_per_task(self, task: RemoteTask) -> float:
        """Return the share of a GPU for a task."""
        share = self.gpus_per_learner if _on_gpu(task) else 0.0
        return share if task.learns else share / 2

    def capacity(self, task: RemoteTask) -> int:
        """Return the number of tasks like this one that can run simultaneously."""
        by_cpus, share = self.cpus // self.threads, self.gpus_per_task(task)
        return max(1, min(by_cpus, int(self.gpus / share)) if share else by_cpus)

    def device(self, asked: str | None) -> str:
        """Return a device of the workers, which see only the GPUs that Ray assigns; see `Executor.device`."""
        if asked is None:
            return "cuda:0" if self.gpus else "cpu"
        if asked not in ("cpu", "cuda", "cuda:0"):
            raise DeviceError(f"device: expected 'cpu' or 'cuda', as Ray assigns the GPU of each task, got {asked!r}")
        if asked != "cpu" and not self.gpus:
            raise self._no_gpu(asked)
        return "cpu" if asked == "cpu" else "cuda:0"

    def _no_gpu(self, device: str) -> DeviceError:
        return DeviceError(
            f"device={device!r}: expected a GPU in the Ray cluster at {self.address!r}, got none; "
            "add a node with a GPU, or set device to 'cpu'"
        )

    @property
    def pending(self) -> int:
        """Number of tasks whose results were not returned."""
        return len(self._queue) + len(self._running)

    def submit(self, task: RemoteTask) -> None:
        """Queue a task; it is sent to Ray shortly before it can run."""
        self._queue.append(task)
        self._send()

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Wait for the next task to finish and return its key and result, or raise its error."""
        if not self.pending:
            raise IndexError("no task was submitted")
        while True:
            self._send()
            began = time.perf_counter()
            try:
                # nodes can join meanwhile
                future = self._finished.get(timeout=RESOURCE_INTERVAL if within is None else within)
            except Empty:
                if within is not None:
                    return None
                self._warn_if_stuck()
                continue
            finally:
                self.waited += time.perf_counter() - began
            if running := self._running.pop(future, None):  # else it was canceled
                return running.task.key, self._result(running.task, future)

    def _warn_if_stuck(self) -> None:
        """Warn once if no node of the cluster has the resources of any task; the tasks wait for new nodes."""
        tasks = [running.task for running in self._running.values()]
        needs_gpu = all(map(_on_gpu, tasks))
        usable = [node for node in self._usable_nodes if node.get("GPU", 0) or not needs_gpu]
        if tasks and not usable and not self._warned:
            needs = f"{self.threads} CPU{' and a GPU' if needs_gpu else ''}"
            message = f"{tasks[0].key}: waits for a node with {needs}; the cluster at {self.address!r} has none"
            warnings.warn(message, stacklevel=3)
        self._warned = bool(tasks and not usable)

    def cancel(self) -> None:
        """Remove all tasks; running ones are killed."""
        self._queue.clear()
        canceled, self._running = self._running, {}
        for running in canceled.values():
            self._ray.cancel(running.ref, force=True)

    def close(self) -> None:
        """Remove all tasks, and disconnect from the cluster if this executor connected to it."""
        if self._ray.is_initialized():
            self.cancel()
            self._payload_handles.clear()
            if self._connected:
                self._ray.shutdown()

    def _send(self) -> None:
        """Send tasks to Ray, `SUBMITTED_PER_RUNNING` times as many as can run."""
        self._update_resources()
        while self._queue and len(self._running) < SUBMITTED_PER_RUNNING * self.capacity(self._queue[0]):
            task = self._queue.popleft()
            refs: dict[str, Any] = {}
            pools = {role: [self._with_refs(pack(one), refs) for one in pool] for role, pool in task.policies.items()}
            arguments = self._with_refs(packed(dict(task.arguments)), refs)
            share = self.gpus_per_task(task)
            # a process keeps its first GPU
            perform_task = self._perform_once if share and self._has_multi_gpu_node else self._perform
            remote = perform_task.options(
                name=task.key,
                num_cpus=self.threads,
                num_gpus=round(share, 4),
                max_retries=RETRIES,
                scheduling_strategy="SPREAD",
            )
            workspace = os.environ.get(CUBLAS, "")
            ref = remote.remote(
                (task.function, pools, arguments, task.device, self.threads, named_modules(), refs, workspace)
            )
            future = ref.future()
            self._running[future] = _Running(task, ref)
            future.add_done_callback(self._finished.put)

    def _with_refs(self, value: Any, refs: dict[str, Any]) -> Any:
        """Return a value with references for its policy payloads, which are put into the object store once."""
        if not isinstance(value, PolicyPayload):
            return each(value, lambda element: self._with_refs(element, refs))
        refs[value.digest] = self._payload_handles.get_or_make(value.digest, lambda: self._ray.put(value))
        return PayloadRef(value.digest)

    def _result(self, task: RemoteTask, future: Future[Any]) -> Any:
        error = future.exception()
        if error is None:
            return unpacked(future.result(), "cpu")
        errors = self._ray.exceptions
        cause = getattr(error, "cause", error)  # the error of the task
        if not isinstance(cause, errors.RayError):
            raise cause from error
        message = str(cause).strip().splitlines() or [""]
        raise GpuEnvsError(
            f"{task.key}: no worker of the Ray cluster finished this task in {RETRIES + 1} tries "
            f"({type(cause).__name__}: {message[0]})"
        ) from error


def _on_gpu(task: RemoteTask) -> bool:
    return task.device.startswith("cuda")


def _perform(content: tuple[Any, ...]) -> Any:
    """Run a packed task in a worker; one argument, since Ray serializes each argument separately."""
    function, pools, arguments, device, threads, modules, refs, workspace = content
    return perform(function, pools, arguments, device, threads, modules, refs, sys.modules["ray"].get, workspace)
