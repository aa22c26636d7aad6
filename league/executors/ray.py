"""Calls done on a Ray cluster."""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import sys
import time
import warnings
from collections import OrderedDict, deque
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from gpu_envs.errors import ConfigError, DeviceError, GpuEnvsError
from gpu_envs.id_modules import named_modules
from league.executors.calls import Call, Parcel, Slip, each, pack, packed, unpacked
from league.executors.worker import perform
from trainers.cluster.connect import connect, ray_library

RETRIES = 3
"""How often Ray does a call again whose worker or node is gone."""
AHEAD = 2
"""Calls that Ray has, for each that can run: who is free finds the next one there, wherever the coordinator is."""
SHARING = 4
"""Learners on a GPU, at most, unless told otherwise."""
LOOK = 5.0
"""Seconds between two looks at what the cluster has."""
KEPT = 1024
"""Parcels that stay in the object store, those that were used last."""


@dataclass(eq=False)
class _Running:
    """A call that Ray has."""

    call: Call
    ref: Any


class RayExecutor:
    """Does calls as tasks of a Ray cluster: whatever worker is free takes the next, wherever it is.

    Ray does calls again whose workers or nodes are gone, and uses nodes as they join. Tasks, not actors: an actor on a
    lost node waits for room of its own while others are free, and a node that joins has none. Ray keeps the processes
    of tasks, so that policies, worlds and CUDA contexts stay for the calls that follow; only where a node has several
    GPUs it does not, as its next call may be given another. A policy is put into the object store once and fetched by
    workers that do not have it.
    """

    remote = True

    def __init__(self, address: str | None = "auto", gpus_per_learner: float | None = None, threads: int = 1) -> None:
        """Connects to a cluster.

        Args:
            address: See `trainers.cluster.connect`.
            gpus_per_learner: What a call that learns takes of a GPU if it computes there, others half of it. None: as
                much as the cluster has for each of its cores, at least a quarter.
            threads: Torch's in a worker, and the cores that a call takes. What comes out is the same bit for bit where
                as many are used, so a run that is to equal one in a single process has one there, too
                (`torch.set_num_threads(1)`).

        Raises:
            MissingExtraError: Ray is not installed.
            ConfigError: A share that is none, or threads below 1.
            GpuEnvsError: There is no cluster.
        """
        library = ray_library("RayExecutor")
        if gpus_per_learner is not None and not 0.001 <= gpus_per_learner <= 1:
            raise ConfigError(f"gpus_per_learner = {gpus_per_learner}: expected a share, 0.001 <= share <= 1, or None")
        if threads < 1:
            raise ConfigError(f"threads = {threads}: expected at least 1")
        self._connected = not library.is_initialized()
        self._ray = connect("RayExecutor", address)
        self.address, self.threads = address, threads
        self.waited = 0.0
        """Seconds that were spent waiting for workers."""
        self._given = gpus_per_learner
        self._perform = self._ray.remote(_perform)
        self._perform_once = self._ray.remote(max_calls=1)(_perform)  # by a process of its own
        self._calls: deque[Call] = deque()
        self._running: dict[Future[Any], _Running] = {}
        self._ended: SimpleQueue[Future[Any]] = SimpleQueue()
        self._parcels: OrderedDict[str, Any] = OrderedDict()
        self._looked, self._told = -LOOK, False
        self._look()

    def _look(self) -> None:
        """What the cluster has now."""
        if time.monotonic() - self._looked > LOOK:
            nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self._looked = time.monotonic()
            self.cpus = sum(int(node.get("CPU", 0)) for node in nodes)
            self.gpus = sum(node.get("GPU", 0) for node in nodes)
            self._able = [node for node in nodes if node.get("CPU", 0) >= self.threads]
            self._several = any(node.get("GPU", 0) > 1 for node in nodes)

    @property
    def gpus_per_learner(self) -> float:
        """What a call that learns takes of a GPU if it computes there; 0: there is none."""
        if not self.gpus:
            return 0.0
        if self._given is not None:
            return self._given
        return 1 / max(1, min(SHARING, int(self.cpus / self.threads / self.gpus)))

    def gpus_per_call(self, call: Call) -> float:
        """What a call takes of a GPU."""
        share = self.gpus_per_learner if _on_gpu(call) else 0.0
        return share if call.learns else share / 2

    def room(self, call: Call) -> int:
        """How many calls like this one can run at a time."""
        room, share = self.cpus // self.threads, self.gpus_per_call(call)
        return max(1, min(room, int(self.gpus / share)) if share else room)

    def device(self, asked: str | None) -> str:
        """One of a worker's, which sees those GPUs only that Ray gives it; this process may have none."""
        if asked is None:
            return "cuda:0" if self.gpus else "cpu"
        if asked not in ("cpu", "cuda", "cuda:0"):
            raise DeviceError(f"device {asked!r}: expected 'cpu' or 'cuda', as Ray gives each call its GPU")
        if asked != "cpu" and not self.gpus:
            raise self._no_gpu(asked)
        return "cpu" if asked == "cpu" else "cuda:0"

    def _no_gpu(self, device: str) -> DeviceError:
        return DeviceError(
            f"device = {device!r}: the Ray cluster at {self.address!r} has no GPU; add a node that has one, or "
            "set device to 'cpu'"
        )

    @property
    def pending(self) -> int:
        """Calls whose results were not given back yet."""
        return len(self._calls) + len(self._running)

    def submit(self, call: Call) -> None:
        """Takes a call; it goes to Ray as soon as there is to be room for it."""
        self._calls.append(call)
        self._send()

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Waits for the first that ends; raises what it raised."""
        if not self.pending:
            raise IndexError("no call was submitted")
        while True:
            self._send()
            began = time.perf_counter()
            try:
                future = self._ended.get(timeout=LOOK if within is None else within)  # a node may join meanwhile
            except Empty:
                if within is not None:
                    return None
                self._tell_if_stuck()
                continue
            finally:
                self.waited += time.perf_counter() - began
            if running := self._running.pop(future, None):  # else it was cancelled
                return running.call.key, self._result(running.call, future)

    def _tell_if_stuck(self) -> None:
        """Says so, once, where no node of the cluster could do any of the calls; one may join, so that they wait."""
        calls = [running.call for running in self._running.values()]
        needs_gpu = all(map(_on_gpu, calls))
        able = [node for node in self._able if node.get("GPU", 0) or not needs_gpu]
        if calls and not able and not self._told:
            needs = f"{self.threads} CPU{' and a GPU' if needs_gpu else ''}"
            message = (
                f"{calls[0].key}: waits for a node with {needs}; none of the Ray cluster at {self.address!r} has that"
            )
            warnings.warn(message, stacklevel=3)
        self._told = bool(calls and not able)

    def cancel(self) -> None:
        """Forgets all calls; those that run are killed."""
        self._calls.clear()
        running, self._running = self._running, {}
        for each_running in running.values():
            self._ray.cancel(each_running.ref, force=True)

    def close(self) -> None:
        """Forgets all calls, and leaves the cluster if this executor has joined it."""
        if self._ray.is_initialized():
            self.cancel()
            self._parcels.clear()
            if self._connected:
                self._ray.shutdown()

    def _send(self) -> None:
        """Gives calls to Ray, as many as it can use soon."""
        self._look()
        while self._calls and len(self._running) < AHEAD * self.room(self._calls[0]):
            call = self._calls.popleft()
            refs: dict[str, Any] = {}
            pools = {role: [self._slip(pack(one), refs) for one in pool] for role, pool in call.pools.items()}
            arguments = self._slip(packed(dict(call.arguments)), refs)
            share = self.gpus_per_call(call)
            perform = self._perform_once if share and self._several else self._perform  # it keeps the GPU it began with
            task = perform.options(
                name=call.key,
                num_cpus=self.threads,
                num_gpus=round(share, 4),
                max_retries=RETRIES,
                scheduling_strategy="SPREAD",
            )
            ref = task.remote((call.function, pools, arguments, call.device, self.threads, named_modules(), refs))
            future = ref.future()
            self._running[future] = _Running(call, ref)
            future.add_done_callback(self._ended.put)

    def _slip(self, value: Any, refs: dict[str, Any]) -> Any:
        """A value with slips for the parcels in it, which go to the object store once."""
        if not isinstance(value, Parcel):
            return each(value, lambda element: self._slip(element, refs))
        if value.digest not in self._parcels:
            self._parcels[value.digest] = self._ray.put(value)
        self._parcels.move_to_end(value.digest)
        refs[value.digest] = self._parcels[value.digest]
        while len(self._parcels) > KEPT:
            self._parcels.popitem(last=False)
        return Slip(value.digest)

    def _result(self, call: Call, future: Future[Any]) -> Any:
        error = future.exception()
        if error is None:
            return unpacked(future.result(), "cpu")
        errors = self._ray.exceptions
        cause = getattr(error, "cause", error)  # of what the call raised
        if not isinstance(cause, errors.RayError):
            raise cause from error
        told = str(cause).strip().splitlines() or [""]
        raise GpuEnvsError(
            f"{call.key}: no worker of the Ray cluster has ended this call, in {RETRIES + 1} tries "
            f"({type(cause).__name__}: {told[0]})"
        ) from error


def _on_gpu(call: Call) -> bool:
    return call.device.startswith("cuda")


def _perform(content: tuple[Any, ...]) -> Any:
    """In a worker; one argument, as Ray takes its time for each."""
    function, pools, arguments, device, threads, modules, refs = content
    return perform(function, pools, arguments, device, threads, modules, refs, sys.modules["ray"].get)
