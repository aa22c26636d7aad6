"""The executor that runs tasks on a Ray cluster."""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import dataclasses
import math
import os
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from gpu_envs.definition.id_modules import named_modules
from gpu_envs.errors import ConfigError, DeviceError, GpuEnvsError
from gpu_envs.utils.lru_cache import LRUCache
from league.executors.gpu_shares import SHARING, GpuNode, GpuShare, SharePlan, check_share, free_shares
from league.executors.ray_resources import GPU, RESOURCE_INTERVAL, RayResources
from league.executors.tasks import RemoteTask
from league.executors.transport import PayloadRef, PolicyPayload, map_elements, pack, packed, unpacked
from league.executors.worker import perform
from trainers.cluster.connect import connect, ray_library, ray_module
from trainers.config.train_config import CUBLAS

RETRIES = 3
"""Number of retries of a task whose worker or node died: by Ray, or by the executor if several processes run it."""
SUBMITTED_PER_RUNNING = 2
"""Submitted tasks per running task, so that a free worker finds the next one without the coordinator."""
MAX_PAYLOADS = 1024
"""Number of policy payloads in the object store."""


class RayGroup:
    """Processes of one task, in a placement group: all of them have their resources, or none has.

    They are actors of this task only. If one of them dies, the other processes cannot continue, and the caller ends the
    group and starts another one.
    """

    def __init__(self, ray: Any, content: tuple[Any, ...], ranks: int, resources: Mapping[str, float]) -> None:
        """Start the processes as soon as their resources are free; this returns at once.

        Args:
            ray: Ray's module.
            content: Packed task, see `_perform`; its function takes the argument `sharded`.
            ranks: Number of processes.
            resources: Resources of each process, by their names in Ray.
        """
        groups, strategies = ray_module("util.placement_group"), ray_module("util.scheduling_strategies")
        self._ray = ray
        self._remove: Callable[[Any], None] = groups.remove_placement_group
        # PACK: on as few nodes as possible, since processes of one node communicate faster
        self._placement: Any = groups.placement_group([dict(resources)] * ranks, strategy="PACK")
        custom = {name: share for name, share in resources.items() if name not in ("CPU", "GPU")}
        remote = ray.remote(_Rank)
        self._actors: list[Any] = [
            remote.options(
                num_cpus=resources["CPU"],
                num_gpus=resources.get("GPU", 0),
                resources=custom,
                scheduling_strategy=strategies.PlacementGroupSchedulingStrategy(
                    self._placement, placement_group_bundle_index=rank
                ),
            ).remote()
            for rank in range(ranks)
        ]
        address, packed = self._actors[0].address.remote(), ray.put(content)  # sent once to each node
        self.refs: list[Any] = [
            actor.run.remote(packed, rank, ranks, address) for rank, actor in enumerate(self._actors)
        ]
        """Results of the processes: rank 0 returns the result of the task, others None."""

    def end(self) -> None:
        """Kill the processes and free their resources."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._remove(self._placement)


@dataclass(eq=False)
class _Training:
    """A task that trains on GPUs and waits for them."""

    task: RemoteTask
    processes: int | None = None
    """Largest number of its processes; None: not planned yet."""
    tries: int = 0
    """Number of groups of processes that have failed."""


@dataclass(eq=False)
class _Running:
    """A task that was submitted to Ray."""

    task: RemoteTask
    refs: list[Any]
    """Results of its processes; the first is the task's."""
    share: GpuShare | None = None
    """GPUs of a training."""
    group: RayGroup | None = None
    """Processes that run the task together, if there are several."""
    tries: int = 0
    """Number of groups before this one."""
    futures: list[Future[Any]] = field(default_factory=list)
    """Futures of the results."""


class RayExecutor:
    """Run tasks on the free workers of a Ray cluster.

    The GPUs are divided among the trainings that run at once, see `league.executors.gpu_shares`: a training with
    several GPUs runs in one process per GPU, and other tasks get what trainings leave free. Trainings start when `next`
    is called, so that all submitted ones are known.

    Ray retries tasks whose workers or nodes died, and uses new nodes as they join. Ray tasks are used instead of
    actors, since an actor of a lost node waits for its own resources, and a new node has no actors. Ray keeps the
    processes of tasks, so that policies, worlds and CUDA contexts are reused. On nodes with several GPUs a process runs
    one task only, since the next task can get another GPU. A policy is put into the object store once, and fetched by
    workers that have not cached it.
    """

    remote = True

    def __init__(
        self,
        address: str | None = "auto",
        gpus_per_learner: float | None = None,
        threads: int = 1,
        memory_per_learner: float | None = None,
        gpu_resource: str = GPU,
    ) -> None:
        """Connect to a cluster.

        Args:
            address: Address of the cluster, see `trainers.cluster.connect`.
            gpus_per_learner: GPUs of every training: a part of one, or a whole number. None: computed from the GPUs of
                the cluster and the number of trainings, so that no GPU is idle; see `plan`.
            threads: Number of torch threads and of cores per process of a task. Results are equal bit for bit for equal
                numbers of threads. Use `torch.set_num_threads(1)` in a run in one process to compare with it.
            memory_per_learner: GPU memory of a training [GiB], which limits the number of trainings on a GPU. None: at
                most `gpu_shares.SHARING`.
            gpu_resource: Resource that stands for GPUs. With a custom resource of the cluster, tasks take shares of it
                and compute on the CPU, which simulates a cluster with GPUs.

        Raises:
            MissingExtraError: Ray is not installed.
            ConfigError: A share is out of range or above the GPUs of the cluster, no GPU has the memory, or `threads`
                is below 1.
            GpuEnvsError: The cluster does not exist.
        """
        library = ray_library("RayExecutor")
        check_share(gpus_per_learner)
        if memory_per_learner is not None and not 0 < memory_per_learner < math.inf:
            raise ConfigError(f"memory_per_learner: expected GiB above 0 or None, got {memory_per_learner}")
        if threads < 1:
            raise ConfigError(f"threads: expected at least 1, got {threads}")
        self._connected = not library.is_initialized()
        self._ray = connect("RayExecutor", address)
        self.address: str | None = address
        self.threads: int = threads
        self.waited: float = 0.0
        """Time spent waiting for workers [s]."""
        self.resources: RayResources = RayResources(
            self._ray, threads, gpus_per_learner, memory_per_learner or 0.0, gpu_resource
        )
        self.resources.check_share()
        self._perform = self._ray.remote(_perform)
        self._perform_once = self._ray.remote(max_calls=1)(_perform)  # in a separate process
        self._waiting: deque[_Training] = deque()  # trainings on GPUs, which come before other tasks
        self._queue: deque[RemoteTask] = deque()
        self._running: dict[Future[Any], _Running] = {}
        self._trainings: list[_Running] = []  # running tasks that train on GPUs
        self._num_others = 0  # number of other running tasks
        self._finished: SimpleQueue[Future[Any]] = SimpleQueue()
        self._payload_handles: LRUCache[str, Any] = LRUCache(max_items=MAX_PAYLOADS)
        self._warned = False

    @property
    def nodes(self) -> list[GpuNode]:
        """Nodes of the cluster."""
        return self.resources.nodes

    def plan(self, trainings: int) -> SharePlan:
        """Return the GPUs of each of several trainings that are submitted together."""
        return self.resources.plan(trainings)

    def device(self, name: str | None) -> str:
        """Return a device of the workers, which see only the GPUs that Ray assigns; see `Executor.device`."""
        gpus = self.resources.cuda_gpus
        if name is None:
            return "cuda:0" if gpus else "cpu"
        if name not in ("cpu", "cuda", "cuda:0"):
            raise DeviceError(f"device: expected 'cpu' or 'cuda', as Ray assigns the GPU of each task, got {name!r}")
        if name != "cpu" and not gpus:
            raise DeviceError(
                f"device={name!r}: expected a GPU in the Ray cluster at {self.address!r}, got none; "
                "add a node with a GPU, or set device to 'cpu'"
            )
        return "cpu" if name == "cpu" else "cuda:0"

    @property
    def pending(self) -> int:
        """Number of tasks whose results were not returned."""
        return len(self._waiting) + len(self._queue) + len(self._trainings) + self._num_others

    def submit(self, task: RemoteTask) -> None:
        """Queue a task; it is sent to Ray shortly before it can run."""
        if not self.resources.uses_gpu(task):
            self._queue.append(task)
            self._send()
        elif task.learns:
            self._waiting.append(_Training(task))
        else:  # trainings that are submitted next come first
            self._queue.append(task)

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Wait for the next task to finish and return its key and result, or raise its error."""
        if not self.pending:
            raise IndexError("no task was submitted")
        while True:
            self._send_trainings()
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
            running = self._running.get(future)
            if running is None:  # it was canceled, or another process of its task has failed
                continue
            failed = future.exception() is not None
            if not failed and not all(result.done() for result in running.futures):
                continue
            self._end(running)
            if failed and self._can_retry(running, future):
                self._waiting.appendleft(_Training(running.task, len(running.refs), running.tries + 1))
                continue
            return running.task.key, self._result(running.task, future if failed else running.futures[0])

    def _can_retry(self, running: _Running, future: Future[Any]) -> bool:
        """Return whether a task of several processes runs again because one of them died.

        The others then fail with errors of their connections, which can arrive first. Ray itself retries other tasks.
        """
        error = future.exception()
        cause = getattr(error, "cause", error)
        lost = isinstance(cause, self._ray.exceptions.RayError | RuntimeError | ConnectionError)
        return running.group is not None and lost and running.tries < RETRIES

    def _warn_if_stuck(self) -> None:
        """Warn once if no node of the cluster has the resources of any task; the tasks wait for new nodes."""
        tasks = [running.task for running in self._running.values()]
        needs_gpu = all(map(self.resources.uses_gpu, tasks))
        stuck = bool(tasks) and not self.resources.can_host(needs_gpu)
        if stuck and not self._warned:
            needs = f"{self.threads} CPU{' and a GPU' if needs_gpu else ''}"
            message = f"{tasks[0].key}: waits for a node with {needs}; the cluster at {self.address!r} has none"
            warnings.warn(message, stacklevel=3)
        self._warned = stuck

    def cancel(self) -> None:
        """Remove all tasks; running ones are killed."""
        self._waiting.clear()
        self._queue.clear()
        for running in list(dict.fromkeys(self._running.values())):
            self._end(running)
            if running.group is None:
                self._ray.cancel(running.refs[0], force=True)

    def close(self) -> None:
        """Remove all tasks, and disconnect from the cluster if this executor connected to it."""
        if self._ray.is_initialized():
            self.cancel()
            self._payload_handles.clear()
            if self._connected:
                self._ray.shutdown()

    # ---------------------------------------------------------------- to Ray

    def _send_trainings(self) -> None:
        """Send the trainings that have GPUs, and those that Ray can start without the coordinator."""
        self.resources.update()
        for running in list(self._trainings):
            if running.group is not None and len(running.refs) > self.resources.gpus:  # nodes are lost
                self._end(running)
                self._waiting.appendleft(_Training(running.task, len(running.refs), running.tries))
        if not self._waiting:
            return
        running_shares = [running.share for running in self._trainings if running.share]
        plan = self.plan(len(self._waiting) + len(running_shares))
        shares = free_shares(self.nodes, plan, running_shares)
        for index, training in enumerate(self._waiting):
            if training.processes is None:  # it is fixed here, since the rounding of the result depends on it
                training.processes = shares[index].processes if index < len(shares) else max(1, int(plan.least))
        if not plan.shares or (plan.waiting and plan.is_uniform and plan.least <= 1):  # each waits in Ray for any GPU
            count = SUBMITTED_PER_RUNNING * max(len(plan.shares), 1) - len(running_shares)
            shares = [GpuShare(plan.least or self.resources.least_share or 1 / SHARING)] * count
        for share in shares[: len(self._waiting)]:
            training = self._waiting.popleft()
            ranks = min(share.processes, training.processes or 1, training.task.max_shards)
            content = self._content(training.task)
            if ranks > 1:
                group = RayGroup(self._ray, content, ranks, self.resources.of_process(share))
                used = GpuShare(float(ranks), share.kind)
                self._watch(_Running(training.task, group.refs, used, group, training.tries))
            else:
                self._send_task(training.task, content, dataclasses.replace(share, gpus=min(share.gpus, 1.0)))

    def _send(self) -> None:
        """Send other tasks to Ray, `SUBMITTED_PER_RUNNING` times the number that can run."""
        self.resources.update()
        running_shares = [running.share for running in self._trainings if running.share]
        ahead = 1 if self._waiting else SUBMITTED_PER_RUNNING  # trainings that wait are next
        while self._queue and self._num_others < ahead * self.resources.capacity(self._queue[0], running_shares):
            task = self._queue.popleft()
            self._send_task(task, self._content(task), None)

    def _send_task(self, task: RemoteTask, content: tuple[Any, ...], share: GpuShare | None) -> None:
        """Send a task of one process: a training with a share, or another task."""
        options = self.resources.task_options(task, share)
        # a process keeps its first GPU
        remote = self._perform_once if self.resources.keeps_gpu(options) else self._perform
        ref = remote.options(max_retries=RETRIES, **options).remote(content)
        self._watch(_Running(task, [ref], share))

    def _watch(self, running: _Running) -> None:
        """Wait for the results of a task."""
        running.futures = [ref.future() for ref in running.refs]
        self._running.update(dict.fromkeys(running.futures, running))
        if running.share is None:
            self._num_others += 1
        else:
            self._trainings.append(running)
        for future in running.futures:
            future.add_done_callback(self._finished.put)

    def _end(self, running: _Running) -> None:
        """Forget a task that is over, and end its group."""
        for future in running.futures:
            del self._running[future]
        if running.share is None:
            self._num_others -= 1
        else:
            self._trainings.remove(running)
        if running.group is not None:
            running.group.end()

    def _content(self, task: RemoteTask) -> tuple[Any, ...]:
        """Return a packed task, see `_perform`."""
        refs: dict[str, Any] = {}
        pools = {role: [self._with_refs(pack(policy), refs) for policy in pool] for role, pool in task.policies.items()}
        arguments = self._with_refs(packed(dict(task.arguments)), refs)
        workspace = os.environ.get(CUBLAS, "")
        return task.function, pools, arguments, task.device, self.threads, named_modules(), refs, workspace

    def _with_refs(self, value: Any, refs: dict[str, Any]) -> Any:
        """Return a value with references for its policy payloads, which are put into the object store once."""
        if not isinstance(value, PolicyPayload):
            return map_elements(value, lambda element: self._with_refs(element, refs))
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


def _perform(content: tuple[Any, ...]) -> Any:
    """Run a packed task in a worker; one argument, since Ray serializes each argument separately."""
    function, pools, arguments, device, threads, modules, refs, workspace = content
    return perform(function, pools, arguments, device, threads, modules, refs, sys.modules["ray"].get, workspace)


class _Rank:
    """One process of a group."""

    def address(self) -> tuple[str, int]:
        """Return the address of this node and a free port, at which rank 0 awaits the others."""
        host = sys.modules["ray"].util.get_node_ip_address()
        with socket.create_server((host, 0)) as free:
            return host, free.getsockname()[1]

    def run(self, content: tuple[Any, ...], rank: int, ranks: int, address: tuple[str, int]) -> Any:
        """Run the task as one rank, and return its packed result on rank 0; see `Shard.from_env`."""
        function, pools, arguments, device, threads, modules, refs, workspace = content
        names = {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": address[0], "MASTER_PORT": address[1]}
        os.environ.update({name: str(value) for name, value in names.items()})

        def together(policies: Any, **arguments: Any) -> Any:
            from torch import distributed

            result = function(policies, sharded=True, **arguments)
            distributed.barrier()  # gloo may abort a process whose peer closes its connections first
            return result if rank == 0 else None

        return perform(together, pools, arguments, device, threads, modules, refs, sys.modules["ray"].get, workspace)
