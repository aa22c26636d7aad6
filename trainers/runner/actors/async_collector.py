"""Rollouts from actors, in the place of `trainers.runner.collector.Collector`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.devices import resolve_device
from trainers.algorithms.on_policy.actor_critic import VTraceConfig
from trainers.base.phase_timer import PhaseTimer
from trainers.base.state import State, select_prefix
from trainers.config.train_config import CoreFactory, TrainConfig
from trainers.runner.actors.actor_threads import ActorThreads, MakeActor, PublishedWeights
from trainers.runner.actors.rollout_actor import RolloutActor
from trainers.runner.actors.trajectory_queue import Trajectory, TrajectoryQueue, Weights
from trainers.runner.collector import Collector
from trainers.runner.episode_statistics import EpisodeStatistics
from trainers.runner.learner_group import LearnerGroup

ActorSource = Callable[[TrainConfig, CoreFactory], tuple[MakeActor, bool]]
"""Function of configuration and factory: what creates actors, and whether they compute in this process."""


class AsyncCollector:
    """Take trajectories of actors and load them into the learners' rollout buffers.

    Between two calls of `collect` the learners are updated once. The second call publishes their new weights. The
    learner's own worlds are not stepped.
    """

    def __init__(
        self,
        config: TrainConfig,
        core: Core,
        learners: LearnerGroup,
        factory: CoreFactory,
        source: ActorSource | None = None,
    ) -> None:
        """Create the queue; the actors start with the first rollout.

        Args:
            config: Configuration of the run.
            core: Environments that describe the agents.
            learners: Learners that are trained.
            factory: Creates the environments of actors.
            source: Creates actors; None: threads of this process.
        """
        self.core: Core = core
        self.learners: LearnerGroup = learners
        core.reset(seed=config.seed)
        self.episodes: EpisodeStatistics = EpisodeStatistics(core, config.learner.rollout_length)
        self.timer: PhaseTimer = PhaseTimer(core.device)
        self.queue: TrajectoryQueue = TrajectoryQueue(config.max_staleness or config.num_actors)
        make_actor, is_local = (source or _in_this_process)(config, factory)
        self.actors: ActorThreads = ActorThreads(
            make_actor, config.num_actors, self.queue, config.num_threads if is_local else None
        )
        self.waited: float = 0.0
        self.started_at: float | None = None
        self._staleness = 0
        self._loaded: Trajectory | None = None

    def collect(self) -> bool:
        """Publish the learners' weights, and load the next trajectory; return False if `stop` ended the wait for it."""
        self.timer.start()
        # before the queue lets the next rollout begin
        weights, device = self._weights(), self.core.device
        written = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None
        self.actors.published = PublishedWeights(self.queue.next_version, weights, written)
        self.queue.learned()
        if self.started_at is None:
            self.actors.start()
        start = time.perf_counter()
        trajectory = self.queue.take()
        if trajectory is None:
            return False
        now = time.perf_counter()
        if self.started_at is None:  # actors were created and kernels compiled
            self.started_at = now
        else:
            self.waited += now - start
        self._staleness = self.queue.version - trajectory.version
        self._load(trajectory)
        self.timer.mark("rollout")
        return True

    def _load(self, trajectory: Trajectory) -> None:
        device = self.core.device
        if trajectory.ready is not None and device.type == "cuda":
            torch.cuda.current_stream(device).wait_event(trajectory.ready)
        elif trajectory.ready is not None:
            trajectory.ready.synchronize()
        # until the next call, before which the host reads metrics: the copies have ended then, and memory can be reused
        self._loaded = trajectory
        for name, assignment in self.learners.assignments.items():
            assignment.learner.load_rollout(trajectory.rollouts[name])  # type: ignore[attr-defined]
        for name, tensor in trajectory.episodes.items():
            setattr(self.episodes, name, tensor.to(device))

    def _weights(self) -> Weights:
        return {
            name: {key: tensor.detach().clone() for key, tensor in assignment.learner.net.state_dict().items()}
            for name, assignment in self.learners.assignments.items()
        }

    def raise_pending_errors(self) -> None:
        """Do nothing: actors check the errors of their environments."""

    def metrics(self) -> dict[str, float]:
        """Return staleness, counts of environment steps, and utilization since the start of this process."""
        accounts, steps = self.queue.accounts, self.learners.config.rollout_steps
        elapsed = max(time.perf_counter() - (self.started_at or time.perf_counter()), 1e-9)
        row = {
            "actors/staleness": float(self._staleness),
            "actors/sampled_steps": float(accounts.started * steps),
            "actors/dropped_steps": float(accounts.dropped * steps),
            "actors/lost_steps": float(accounts.lost * steps),
            "actors/utilization": self.actors.utilization(),
            "actors/learner_utilization": 1.0 - self.waited / elapsed,
        }
        return row | {f"actors/staleness_{k}": float(count) for k, count in enumerate(accounts.staleness)}

    def stop(self) -> None:
        """Let `collect` end its wait; signal handlers may call this."""
        self.queue.stop()

    def close(self) -> None:
        """End the actors; what is on its way is lost."""
        self.actors.close()

    def state_dict(self) -> State:
        """Return the counts of rollouts, the statistics of episodes, and the state of the learner's own worlds."""
        state: State = {f"core.{name}": tensor for name, tensor in self.core.get_state().items()}
        state |= {f"actors.{name}": value for name, value in self.queue.state_dict().items()}
        return {**state, "episodes.recent": self.episodes.recent}

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned; a state without actors starts their counts at 0.

        Raises:
            CheckpointError: The state does not fit.
        """
        self.episodes.load_recent(state.get("episodes.recent"))
        if counts := select_prefix(state, "actors."):
            self.queue.load_state_dict(counts)


def make_collector(
    config: TrainConfig, core: Core, learners: LearnerGroup, factory: CoreFactory, source: ActorSource | None = None
) -> Collector | AsyncCollector:
    """Return the source of rollouts of a training: actors, or the learners' own worlds without `num_actors`."""
    if config.num_actors:
        return AsyncCollector(config, core, learners, factory, source)
    return Collector(config, core, learners)


def check_actors(config: TrainConfig, ranks: int = 1) -> None:
    """Raise ConfigError if a configuration with actors cannot be trained by a number of processes."""
    if not config.num_actors:
        return
    if ranks > 1:
        raise ConfigError(f"num_actors: expected 0 with several ranks, got {config.num_actors}")
    if config.actor_device is not None and not re.fullmatch(r"cpu|cuda(:\d{1,3})?", config.actor_device):
        raise ConfigError(f"actor_device: expected cpu, cuda or cuda:N, got {config.actor_device!r}")
    if not isinstance(config.learner, VTraceConfig):
        raise ConfigError(
            f"num_actors = {config.num_actors}: expected algorithm appo or impala, whose returns are corrected for "
            f"older weights, got {config.algorithm!r}; choose one of them, or num_actors = 0"
        )
    if config.anneal:
        raise ConfigError("anneal: expected none with actors, whose worlds are their own; choose num_actors = 0")
    if config.max_staleness is not None and config.max_staleness < config.num_actors:
        raise ConfigError(
            f"max_staleness: expected at least num_actors = {config.num_actors}, so that all actors can sample while "
            f"the learner learns, got {config.max_staleness}"
        )


def _in_this_process(config: TrainConfig, factory: CoreFactory) -> tuple[MakeActor, bool]:
    resolve_device(config.actor_device or config.device)  # before there is a folder
    return lambda number, _: RolloutActor(config, number, factory), True
