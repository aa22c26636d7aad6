"""Actors of an asynchronous training as Ray actors, on any machine of a cluster.

Weights are put once per version into Ray's object store, and trajectories return through it. A Ray actor that ends or
cannot be reached is replaced as soon as the cluster has room. Machines can join and leave at any time.
"""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_envs.definition.id_modules import import_named, named_modules
from gpu_envs.runtime.kernels import limited_cores
from trainers.cluster.connect import connect
from trainers.config.train_config import CoreFactory, TrainConfig
from trainers.runner.actors.actor_threads import ActorLostError, MakeActor
from trainers.runner.actors.async_collector import ActorSource
from trainers.runner.actors.rollout_actor import RolloutActor
from trainers.runner.actors.trajectory_queue import Trajectory, Weights

WHO = "trainers.cluster.ray_actors"  # in messages
POLL_SECONDS = 1.0
"""Time between two checks whether the training has ended, while an actor is awaited [s]."""
Arrays = Mapping[str, Mapping[str, np.ndarray[Any, Any]]]
"""Arrays by policy and name, the form in which tensors travel."""


def ray_actors(address: str | None = None, cpus_per_actor: float = 1.0, gpus_per_actor: float = 0.0) -> ActorSource:
    """Return a source of actors on a Ray cluster, for `trainers.runner.trainer.Trainer`.

    Args:
        address: Address of the cluster, see `trainers.cluster.connect.connect`.
        cpus_per_actor: CPU cores that Ray reserves for each actor.
        gpus_per_actor: GPUs of each actor; needed if `TrainConfig.actor_device` is a GPU.

    Raises:
        MissingExtraError: Ray is not installed.
        GpuEnvsError: No cluster answers at the address.
    """
    ray = connect(WHO, address)

    def source(config: TrainConfig, factory: CoreFactory) -> tuple[MakeActor, bool]:
        """Return what creates the actors; they make environments by their id, because `factory` does not travel."""
        del factory
        plain, modules = json.dumps(dataclasses.asdict(config)), named_modules()
        remote = ray.remote(num_cpus=cpus_per_actor, num_gpus=gpus_per_actor)(_RemoteActor)
        store, cores = _WeightStore(ray), max(int(cpus_per_actor), 1)

        def make(number: int, closed: Callable[[], bool]) -> _ActorProxy:
            return _ActorProxy(ray, remote.remote(plain, modules, number, cores), store, closed)

        return make, False

    return source


class _RemoteActor:
    """A `RolloutActor` in a process of Ray."""

    def __init__(self, config: str, modules: tuple[str, ...], number: int, cores: int) -> None:
        """Keep the arguments: an error in a constructor would look as if the process had died."""
        self.arguments = (config, modules, number)
        self.cores = cores

    def create(self) -> int:
        """Create the worlds; return the id of this process."""
        plain, modules, number = self.arguments
        import_named(modules)
        torch.set_num_threads(self.cores)
        with limited_cores(self.cores):
            config = TrainConfig.from_json(json.loads(plain))
            kind = (config.actor_device or config.device).partition(":")[0]  # Ray shows an actor its own GPUs only
            self.actor = RolloutActor(dataclasses.replace(config, actor_device=kind), number)
        return os.getpid()

    def sample(self, number: int, version: int, weights: Arrays) -> tuple[int, Arrays, dict[str, Any], float]:
        """Play one rollout; return its steps, its buffers and episodes as arrays, and its duration."""
        tensors = {
            name: {key: torch.from_numpy(np.array(array)) for key, array in arrays.items()}
            for name, arrays in weights.items()
        }
        with limited_cores(self.cores):
            trajectory = self.actor.sample(number, version, tensors)
        if trajectory.ready is not None:
            trajectory.ready.synchronize()
        rollouts = {name: _arrays(arrays) for name, arrays in trajectory.rollouts.items()}
        return trajectory.steps, rollouts, _arrays(trajectory.episodes), trajectory.seconds


class _WeightStore:
    """References to weights in Ray's object store, one per version."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._newest: tuple[int, Any] = (-1, None)
        self._lock = threading.Lock()

    def reference(self, version: int, weights: Weights) -> Any:
        """Return the reference of weights, which are copied to the host at the first call of their version."""
        with self._lock:
            if self._newest[0] != version:
                arrays = {name: _arrays(tensors) for name, tensors in weights.items()}
                self._newest = (version, self._ray.put(arrays))
            return self._newest[1]


class _ActorProxy:
    """A Ray actor, called from a thread of the learner's process."""

    def __init__(self, ray: Any, handle: Any, store: _WeightStore, closed: Callable[[], bool]) -> None:
        """Wait until the actor has its worlds; a cluster without room starts it later."""
        self._ray = ray
        self._handle = handle
        self._store = store
        self._closed = closed
        self.pid: int = self._result(handle.create.remote())

    def sample(self, number: int, version: int, weights: Weights, ready: Any = None) -> Trajectory:
        """Play one rollout, see `RolloutActor.sample`."""
        if ready is not None:
            ready.synchronize()
        steps, rollouts, episodes, seconds = self._result(
            self._handle.sample.remote(number, version, self._store.reference(version, weights))
        )
        tensors = {name: _tensors(arrays) for name, arrays in rollouts.items()}
        return Trajectory(number, version, steps, tensors, _tensors(episodes), seconds)

    def _result(self, reference: Any) -> Any:
        """Wait for a result; raise ActorLostError if the actor is gone, or the training has ended meanwhile."""
        while not self._ray.wait([reference], timeout=POLL_SECONDS)[0]:
            if self._closed():
                raise ActorLostError("the training has ended")
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError:  # an error of the actor's own
            raise
        except errors.RayError as error:
            raise ActorLostError(str(error)) from error


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


def _tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
