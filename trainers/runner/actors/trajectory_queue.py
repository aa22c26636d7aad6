"""Queue between actors and learner: bounded, with bounded staleness and an exact count of every rollout."""

from __future__ import annotations

import itertools
import re
import threading
import warnings
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gpu_envs.errors import CheckpointError
from trainers.base.state import State

Weights = Mapping[str, Mapping[str, Tensor]]
"""Tensors of the networks and normalizers by policy and name."""
COUNTS = ("actors", "started", "learned", "dropped", "lost")
"""Counts of `Accounts` that checkpoints hold."""
WARN_SECONDS = 30
"""Time without a rollout after which the learner warns [s]."""


@dataclass(frozen=True)
class Trajectory:
    """One rollout of an actor's worlds; its tensors are written by nothing else."""

    number: int
    """Number of the rollout in the run, unique over all actors."""
    version: int
    """Version of the weights that sampled it."""
    steps: int
    """Environment steps of the rollout, summed over its worlds."""
    rollouts: Mapping[str, Mapping[str, Tensor]]
    """Buffers by policy and name, see `ActorCriticLearner.export_rollout`."""
    episodes: Mapping[str, Tensor]
    """Ends, returns, lengths and results of episodes, see `EpisodeStatistics`."""
    seconds: float = 0.0
    """Duration of the rollout, without the time to send it [s]."""
    ready: Any = None
    """CUDA event after the last write; None on a CPU."""


@dataclass
class Accounts:
    """Numbers of rollouts. Each one that was started is learned from, dropped, lost or still on its way."""

    actors: int = 0
    """Actors that were created, replacements of failed ones included."""
    started: int = 0
    """Rollouts that actors began."""
    learned: int = 0
    """Rollouts that the learner used."""
    dropped: int = 0
    """Rollouts that arrived too stale, and were not used."""
    lost: int = 0
    """Rollouts of actors that failed, and those on their way when a run stopped."""
    staleness: list[int] = field(default_factory=list)
    """Number of used rollouts by staleness."""


class TrajectoryQueue:
    """Hand trajectories from actors to the learner. All methods can be called from any thread.

    An actor may begin a rollout while at most `max_staleness` others are on their way: being sampled, waiting, or being
    learned from. Trajectories that arrive in the order in which they began are then never staler than `max_staleness`.
    One that others overtook may be staler, and is dropped.
    """

    def __init__(self, max_staleness: int) -> None:
        """Create an empty queue.

        Args:
            max_staleness: Largest staleness of trajectories that are learned from, at least 1.
        """
        self.max_staleness: int = max_staleness
        self.version: int = 0
        self.accounts: Accounts = Accounts(staleness=[0] * (max_staleness + 1))
        self._sampling: set[int] = set()
        self._waiting: deque[Trajectory] = deque()
        self._learning: Trajectory | None = None
        self._closed = False
        self._stopped = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def on_their_way(self) -> int:
        """Number of rollouts being sampled, waiting, or being learned from."""
        return len(self._sampling) + len(self._waiting) + (self._learning is not None)

    def register(self) -> int:
        """Return the number of a new actor."""
        with self._changed:
            self.accounts.actors += 1
            return self.accounts.actors - 1

    @property
    def closed(self) -> bool:
        """Whether no rollout begins any more."""
        return self._closed

    @property
    def next_version(self) -> int:
        """Version of the weights after the update from the taken trajectory."""
        return self.version + (self._learning is not None)

    def begin(self) -> int | None:
        """Wait until an actor may begin a rollout, and return its number; None after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self.on_their_way <= self.max_staleness)
            if self._closed:
                return None
            number = self.accounts.started
            self.accounts.started += 1
            self._sampling.add(number)
            return number

    def put(self, trajectory: Trajectory) -> bool:
        """Add a trajectory; return False, without effect, if its rollout is not being sampled or is already here."""
        with self._changed:
            if trajectory.number not in self._sampling:
                return False
            self._sampling.remove(trajectory.number)
            self._waiting.append(trajectory)
            self._changed.notify_all()
            return True

    def lose(self, number: int) -> None:
        """Count a rollout that will not arrive, because its actor failed."""
        with self._changed:
            if number in self._sampling:
                self._sampling.remove(number)
                self.accounts.lost += 1
                self._changed.notify_all()

    def take(self) -> Trajectory | None:
        """Wait for the next trajectory that is fresh enough, and return it. Call `learned` after its update.

        Returns:
            The trajectory; None after `stop`, if none is waiting.

        Raises:
            Exception: The error of an actor, see `fail`.
        """
        with self._changed:
            assert self._learning is None, "take() was called again before learned()"
            while True:
                self._wait()
                if self._error is not None:
                    raise self._error
                if not self._waiting:
                    return None
                trajectory = self._waiting.popleft()
                staleness = self.version - trajectory.version
                if staleness <= self.max_staleness:
                    self._learning = trajectory
                    self.accounts.staleness[staleness] += 1
                    return trajectory
                self.accounts.dropped += 1
                self._changed.notify_all()

    def _wait(self) -> None:
        """Wait for a trajectory, an error or `stop`; a signal handler may not be able to notify."""
        for second in itertools.count(1):
            if self._changed.wait_for(lambda: self._waiting or self._stopped or self._error is not None, 1.0):
                return
            if second == WARN_SECONDS:
                self._warn()

    def _warn(self) -> None:
        state = f"{len(self._sampling)} rollouts have begun" if self._sampling else "no actor has begun a rollout"
        warnings.warn(
            f"the learner has waited {WARN_SECONDS} s for a rollout, {state}; on a Ray cluster without room, "
            "actors wait for it, see `ray status`",
            stacklevel=5,
        )

    def stop(self) -> None:
        """Let `take` return None within a second instead of waiting; signal handlers may call this."""
        self._stopped = True

    def learned(self) -> None:
        """Count the taken trajectory and the new version of the weights; without effect if none is taken."""
        with self._changed:
            if self._learning is not None:
                self._learning = None
                self.accounts.learned += 1
                self.version += 1
                self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Let `take` raise the error of an actor."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def close(self) -> None:
        """Let no rollout begin, and count those on their way as lost."""
        with self._changed:
            self._closed = True
            self.accounts.lost += len(self._sampling) + len(self._waiting)
            self._sampling.clear()
            self._waiting.clear()
            self._changed.notify_all()

    def state_dict(self) -> State:
        """Return the counts as if the run ended now: what is on its way is lost, what is being learned from counts."""
        with self._changed:
            counts = {name: getattr(self.accounts, name) for name in COUNTS}
            counts["learned"] += self._learning is not None
            counts["lost"] = counts["started"] - counts["learned"] - counts["dropped"]
            return {**counts, **{f"staleness_{k}": count for k, count in enumerate(self.accounts.staleness)}}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restore the result of `state_dict`. The counts of staleness may be more or fewer than now.

        Raises:
            CheckpointError: A count is not a number, or they contradict each other.
        """
        names = [name for name in state if re.fullmatch(r"staleness_\d{1,4}", name)]
        for name in (*COUNTS, *names):
            value = state.get(name)
            if not isinstance(value, int) or value < 0:
                raise CheckpointError(f"actors.{name}: expected a count, got {value!r:.80}")
        counts: dict[str, Any] = {name: state[name] for name in COUNTS}
        histogram: dict[int, Any] = {int(name.removeprefix("staleness_")): state[name] for name in names}
        learned = sum(histogram.values())
        if counts["learned"] != learned or counts["started"] != learned + counts["dropped"] + counts["lost"]:
            raise CheckpointError(f"actors: expected counts that add up, got {counts} and by staleness {histogram}")
        size = max([self.max_staleness, *histogram]) + 1
        self.accounts = Accounts(**counts, staleness=[histogram.get(k, 0) for k in range(size)])
        self.version = learned
