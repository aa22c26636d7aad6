"""Threads that let actors sample without pause, here or in other processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch

from gpu_envs.errors import GpuEnvsError
from gpu_envs.runtime.kernels import available_cores, limited_cores
from trainers.runner.actors.trajectory_queue import Trajectory, TrajectoryQueue, Weights


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
"""Number of actors lost in one place, without a rollout of any actor between, after which the training ends."""
CLOSE_SECONDS = 60.0
"""Longest time that the end of a training waits for actors to end their rollouts [s]."""


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

    def __init__(self, make_actor: MakeActor, count: int, queue: TrajectoryQueue, num_threads: int | None = 0) -> None:
        """Create the threads; `start` starts them.

        Args:
            make_actor: Creates an actor, in its thread.
            count: Number of actors.
            queue: Queue of the trajectories.
            num_threads: PyTorch threads of each actor in this process, at most its share of the cores; 0: its share.
                None: actors compute in other processes.
        """
        self.make_actor: MakeActor = make_actor
        self.queue: TrajectoryQueue = queue
        share = max(available_cores() // (count + 1), 1)
        self.cores: int | None = None if num_threads is None else share
        self.num_threads: int = min(num_threads or share, share)
        self.rollouts: int = 0
        """Number of rollouts of all actors."""
        self.published: PublishedWeights | None = None
        """The newest weights."""
        self.busy: list[float] = [0.0] * count
        """Seconds that each actor has sampled."""
        self.started: list[float | None] = [None] * count
        """Time at which each actor began to sample."""
        self.threads: list[threading.Thread] = [
            threading.Thread(target=self._run, args=(index,), name=f"actor {index}", daemon=True)
            for index in range(count)
        ]

    def start(self) -> None:
        """Start the threads, after the first weights were published."""
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        """Let every actor end its rollout, and wait for the threads, at most `CLOSE_SECONDS`."""
        self.queue.close()
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self.threads:
            if thread.is_alive():
                thread.join(max(deadline - time.monotonic(), 0.0))

    def utilization(self) -> float:
        """Return the mean share of time that actors have sampled since they were created, 0 before."""
        now = time.perf_counter()
        shares = [
            busy / max(now - start, 1e-9)
            for busy, start in zip(self.busy, self.started, strict=True)
            if start is not None
        ]
        return sum(shares) / len(shares) if shares else 0.0

    def _run(self, index: int) -> None:
        try:
            if self.cores is None:
                self._play(index)
                return
            torch.set_num_threads(self.num_threads)  # of this thread and those that start later
            with limited_cores(self.cores):
                self._play(index)
        except BaseException as error:  # noqa: BLE001  # the learner raises it
            self.queue.fail(error)

    def _play(self, index: int) -> None:
        """Create actors, and sample with each until it is lost."""
        losses = 0
        while not self.queue.closed:
            rollouts = self.rollouts
            try:
                self._sample(index, self.make_actor(self.queue.register(), lambda: self.queue.closed))
            except ActorLostError as error:
                losses = losses + 1 if self.rollouts == rollouts else 1
                if losses >= MAX_LOSSES:
                    raise GpuEnvsError(
                        f"actor {index}: {losses} actors were lost one after another, the last one by: {error}"
                    ) from error
                time.sleep(0.05 * 2**losses)

    def _sample(self, index: int, actor: Actor) -> None:
        """Sample rollouts until the queue is closed; raise ActorLostError if the actor is lost."""
        while (number := self.queue.begin()) is not None:
            published = self.published
            if self.started[index] is None:
                self.started[index] = time.perf_counter()
            assert published is not None
            try:
                trajectory = actor.sample(number, published.version, published.weights, published.ready)
                self.queue.put(trajectory)
            except BaseException:
                self.queue.lose(number)
                raise
            self.busy[index] += trajectory.seconds
            self.rollouts += 1
