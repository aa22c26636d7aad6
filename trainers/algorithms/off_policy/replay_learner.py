"""Base of the learners with a replay: acting, counting, updates, and the state that a checkpoint holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trainers.algorithms.learner import CentralInput
from trainers.algorithms.off_policy.hidden_states import HiddenStates
from trainers.base.captured_updates import CapturedUpdates
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import LearnerSpec
from trainers.base.random_streams import SingleStream, stream_of_shard
from trainers.base.serialization import check_tensors
from trainers.base.state import State, load_state, save_state, select_prefix
from trainers.base.transition import Transition
from trainers.base.weak_methods import weak_method
from trainers.buffers.replay_buffer import ReplayBuffer
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.networks import Network
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import Policy, freeze_policy


class ReplayLearner(ABC):
    """Learner with an actor, a rollout and a replay.

    A subclass builds the networks and the replay, and defines `act` and the methods from `_store_rollout` on.
    """

    central_input: CentralInput = None
    """Input that the critics need in addition to the agents' observations."""
    reducer: GradientReducer = LOCAL_REDUCER
    """Sum of gradients and statistics over the processes that train together."""
    counters: tuple[str, ...] = ("steps", "gradient_steps")
    """Counters in checkpoints."""
    carries: str = "carried"
    """Name in checkpoints of the tensors of `_carried`."""
    config: Any
    """Settings of the algorithm."""
    spec: dict[str, Any]
    """Network and action specification of the policy."""
    head: Any
    """Action head of the actor's outputs."""
    normalizer: ObservationNormalizer
    """Normalizer of observations."""
    actor: Network
    """Network of the policy."""
    net: nn.ModuleDict
    """All networks and normalizers."""
    optimizers: dict[str, torch.optim.Optimizer]
    """Optimizers by name."""
    rollout: RolloutBuffer
    """Present rollout."""
    hidden_states: HiddenStates
    """Hidden states of the policy."""
    replay: ReplayBuffer
    """Steps of earlier rollouts, on the learner's device."""

    def __init__(self, config: Any, spec: LearnerSpec) -> None:
        """Set the device, the random streams and the capture of gradient steps."""
        self.config = config
        self.learner_spec: LearnerSpec = spec
        self.total_steps: int = spec.total_steps
        self.num_envs_total: int = spec.num_envs_total
        self.has_action_mask: bool = spec.has_action_mask
        self.device: torch.device = torch.device(spec.device)
        self.steps = 0
        self.gradient_steps = 0
        self.generator: torch.Generator = torch.Generator(self.device).manual_seed(spec.seed)
        self.stream: SingleStream = stream_of_shard(self.generator, spec.shard)
        self.updates: CapturedUpdates = CapturedUpdates(
            spec.captured, self, weak_method(self._replay_tensors), weak_method(self._changed_replay)
        )

    def observe(self, transition: Transition) -> None:
        """Store the results of the last actions."""
        self.rollout.end_step(transition)

    def update(self) -> dict[str, Tensor]:
        """Move the rollout to the replay, and learn from it once it holds enough steps.

        Gradient steps are CUDA graphs if the spec is `captured`.

        Returns:
            Metrics, scalars on the device.
        """
        c, rollout = self.config, self.rollout
        self._check_rollout()  # before anything learns from it
        if c.normalize_obs:
            self._normalize()
        self._store_rollout()
        self.steps += rollout.length * self.num_envs_total
        rollout.clear()
        metrics = self._begin_learning(self.steps / self.total_steps)
        if self.steps >= c.learning_starts and self._can_learn():
            metrics |= mean_metrics([self._learn() for _ in range(c.updates)])
        self._schedule()
        return metrics

    def _normalize(self) -> None:
        """Add the rollout's observations to the running statistics."""
        self.normalizer.update(self.rollout.obs, self.rollout.valid, self.reducer.sum)

    def _check_rollout(self) -> None:
        """Raise RolloutOverflowError as `RolloutBuffer.check`; with captured updates the trainer does, with metrics."""
        if not self.updates.enabled:
            self.rollout.check()

    @abstractmethod
    def _store_rollout(self) -> None:
        """Move the steps of the rollout to the replay."""

    def _begin_learning(self, progress: float) -> dict[str, Tensor]:
        """Set what gradient steps use at a fraction of `total_steps`; return metrics of the rollout."""
        return {}

    def _can_learn(self) -> bool:
        """Return whether the replay holds enough steps for a gradient step."""
        return True

    @abstractmethod
    def _learn(self) -> dict[str, Tensor]:
        """Take one gradient step on sampled steps; return metrics, scalars on the device."""

    @abstractmethod
    def _schedule(self) -> None:
        """Set what changes over the training, for the next rollout."""

    def _replay_tensors(self) -> Iterable[Tensor]:
        """Return the tensors of the replay."""
        return self.replay.buffers.values()

    def _changed_replay(self) -> Sequence[Tensor]:
        """Return the tensors of the replay that gradient steps change."""
        return ()

    def policy(self) -> Policy:
        """Return a frozen copy of the policy's network with its normalizer."""
        return freeze_policy(self)

    def _carried(self) -> dict[str, Tensor]:
        """Return the tensors carried from one rollout to the next, except the replay."""
        return self.hidden_states.carried() if self.hidden_states.width else {}

    def _replay_state(self) -> State:
        return self.replay.state_dict()

    def _load_replay(self, state: State) -> None:
        self.replay.load_state_dict(state)

    def state_dict(self) -> State:
        """Return networks, optimizers, counters, generator, carried tensors and the replay, between rollouts."""
        counters = {name: getattr(self, name) for name in self.counters}
        carried = {f"{self.carries}.{name}": tensor for name, tensor in self._carried().items()}
        return {**save_state(self.net, self.optimizers, self.generator, **counters), **carried, **self._replay_state()}

    def load_state_dict(self, state: State) -> None:
        """Restore the result of `state_dict`; raise CheckpointError at the first mismatch."""
        counters = load_state(state, self.net, self.optimizers, self.generator, *self.counters)
        self.steps: int = counters["steps"]
        self.gradient_steps: int = counters.get("gradient_steps", 0)
        self.rollout.clear()
        carried = self._carried()
        if carried:
            entries = select_prefix(state, f"{self.carries}.")
            for name, tensor in check_tensors(f"learner state {self.carries}", entries, carried).items():
                carried[name].copy_(tensor)
        self._load_replay(state)
        self._schedule()


def mean_metrics(results: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each metric, scalars by name, over the gradient steps that have it."""
    by_name: dict[str, list[Tensor]] = {}
    for metrics in results:
        for name, value in metrics.items():
            by_name.setdefault(name, []).append(value)
    return {name: torch.stack(values).mean() for name, values in by_name.items()}
