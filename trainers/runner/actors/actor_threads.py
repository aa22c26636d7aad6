"""Threads that let actors sample without pause, here or in other processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch

from gpu_envs.errors import GpuEnvsError
from gpu_envs.runtime.kernels import available_cores, limited_cores
from trainers.runner.actors.trajectory import Trajectory, Weights
from trainers.runner.actors.trajectory_queue import TrajectoryQueue

__all__ = ["Actor", "ActorLostError", "ActorThreads", "MakeActor", "PublishedWeights"]


class ActorLostError(Exception):
    """The process of an actor ended or does not answer; its rollout is lost, and another actor takes its place."""


class Actor(Protocol):
    """Source of rollouts, such as `RolloutActor`."""

    def sample(self, number: int, version: int, weights: Weights, ready: Any = None) -> Trajectory:
        """Play one rollout; raise ActorLostError if it is lost. See `RolloutActor.sample`."""
        ...


MakeActor = Callable[[int, Callable[[], bool]], Actor]
"""Function that creates an actor from its number and a function that tells whether the training has ended; it raises
ActorLostError if another attempt may succeed."""
MAX_LOSSES = 5
"""Number of actors lost one after another, without a rollout of any, after which the training ends."""


class PublishedWeights(NamedTuple):
    """Weights that actors use for rollouts that begin."""

    version: int
    """Number of updates that made them."""
    weights: Weights
    """Weights of all policies."""
    ready: Any
    """CUDA event after which they can be read; None on a CPU."""


class ActorThreads:
    """One thread per actor: begin a rollout, sample it with the newest weights, put it in the queue, and so on."""

    def __init__(self, make_actor: MakeActor, count: int, queue: TrajectoryQueue, is_local: bool = True) -> None:
        """Create the threads; `start` starts them.

        Args:
            make_actor: Creates an actor, in its thread.
            count: Number of actors.
            queue: Queue of the trajectories.
            is_local: Actors compute in this process, so that their threads share its cores.
        """
        self.make_actor: MakeActor = make_actor
        self.queue: TrajectoryQueue = queue
        self.cores: int | None = max(available_cores() // (count + 1), 1) if is_local else None
        self.published: PublishedWeights | None = None
        """The newest weights."""
        self.busy: list[float] = [0.0] * count
        """Seconds that each actor has sampled."""
        self.begun: list[float | None] = [None] * count
        """Time at which each actor began to sample."""
        self.threads: list[threading.Thread] = [
            threading.Thread(target=self._run, args=(place,), name=f"actor {place}", daemon=True)
            for place in range(count)
        ]

    def start(self) -> None:
        """Start the threads, after the first weights were published."""
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        """Let every actor end its rollout, and wait for the threads."""
        self.queue.close()
        for thread in self.threads:
            if thread.is_alive():
                thread.join()

    def utilization(self) -> float:
        """Return the mean share of time that actors have sampled since they were created, 0 before."""
        now = time.perf_counter()
        shares = [
            busy / max(now - begun, 1e-9)
            for busy, begun in zip(self.busy, self.begun, strict=True)
            if begun is not None
        ]
        return sum(shares) / len(shares) if shares else 0.0

    def _run(self, place: int) -> None:
        try:
            if self.cores is None:
                self._play(place)
                return
            torch.set_num_threads(self.cores)  # of this thread only
            with limited_cores(self.cores):
                self._play(place)
        except BaseException as error:  # noqa: BLE001  # the learner raises it
            self.queue.fail(error)

    def _play(self, place: int) -> None:
        """Create actors, and sample with each until it is lost."""
        losses = 0
        while not self.queue.closed:
            before = self.busy[place]
            try:
                self._sample(place, self.make_actor(self.queue.register(), lambda: self.queue.closed))
            except ActorLostError as error:
                losses = losses + 1 if self.busy[place] == before else 1
                if losses >= MAX_LOSSES:
                    raise GpuEnvsError(
                        f"actor {place}: {losses} actors were lost one after another, the last one by: {error}"
                    ) from error

    def _sample(self, place: int, actor: Actor) -> None:
        """Sample rollouts until the queue is closed; raise ActorLostError if the actor is lost."""
        while (number := self.queue.begin()) is not None:
            begun, published = time.perf_counter(), self.published
            if self.begun[place] is None:
                self.begun[place] = begun
            assert published is not None
            try:
                self.queue.put(actor.sample(number, published.version, published.weights, published.ready))
            except BaseException:
                self.queue.lose(number)
                raise
            self.busy[place] += time.perf_counter() - begun
