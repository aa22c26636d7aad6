"""Settings, storage and functions shared by TD3, SAC and their multi-agent forms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import check_settings, setting
from trainers.algorithms.learner import CentralInput
from trainers.algorithms.off_policy.kernel_actor import KernelActing
from trainers.base.captured_updates import CapturedUpdates
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import LearnerSpec
from trainers.base.random_streams import SingleStream, stream_of_rows, stream_of_shard
from trainers.base.state import State
from trainers.base.transition import Transition
from trainers.buffers.replay_buffer import Fields, ReplayBuffer
from trainers.buffers.rollout_buffer import RolloutBuffer, final_obs_capacity
from trainers.models.action_heads import Head
from trainers.models.networks import ACTIVATIONS, NetworkConfig
from trainers.models.normalization import masked_mean

__all__ = [
    "COPIED_FIELDS",
    "ReplayConfig",
    "ReplayLearner",
    "ReplayStore",
    "critic_step",
    "critic_values",
    "mean_metrics",
    "zero_invalid",
]

COPIED_FIELDS = ("reward", "terminated", "valid", "which")
"""Fields of sampled steps that losses use unchanged; "which" is described in `ReplayStore.draw`."""


@dataclass(frozen=True)
class ReplayConfig(NetworkConfig):
    """Settings of TD3, SAC and their multi-agent forms. A "step" is one step of one world, with all its agents."""

    names = "learners with a replay"
    """Names of the algorithms with these settings, for messages. Not a setting, so it has no type."""
    hidden_sizes: tuple[int, ...] = setting((256, 256), ge=1, le=2**16)
    """Widths of the hidden layers."""
    activation: str = setting("relu", choices=tuple(ACTIVATIONS))
    """Activation function of the hidden layers: "tanh" or "relu"."""
    rollout_length: int = setting(8, ge=1)
    """Steps per world between two updates."""
    updates: int = setting(8, ge=1)
    """Gradient steps of the critic per update. Raise it to learn more from each step of the environment."""
    replay_size: int = setting(1_000_000, ge=1)
    """Capacity of the replay [steps of worlds]. Lower it if memory is short."""
    batch_size: int = setting(256, ge=1)
    """Steps per gradient step, each with all agents of the policy."""
    learning_starts: int = setting(5_000, ge=0)
    """Steps of uniformly random actions before the first gradient step."""
    learning_rate: float = setting(1e-3, gt=0)
    """Step size of Adam. Lower it if training is unstable."""
    gamma: float = setting(0.99, ge=0, le=1)
    """Discount per step, in [0, 1]. Raise it for longer horizons."""
    tau: float = setting(0.005, ge=0, le=1)
    """Share of the way that target networks move per step of the policy, in [0, 1]."""
    max_grad_norm: float | None = setting(None, gt=0)
    """Largest global norm of gradients; longer ones are scaled down. None: no limit."""
    normalize_obs: bool = False
    """Normalize observations by running statistics; the replay stores them unchanged."""
    reward_scale: float = setting(1.0, gt=0)
    """Factor of rewards before learning. Choose it so that returns are of order 1 to 100."""
    truncation_capacity: float | None = setting(None, gt=0)
    """Mean number of truncations per agent and rollout that the buffer of final observations holds.
    Fractions are rounded up. None: one more than the time limit causes, at least 2. Raise it if a rollout overflows."""

    def __post_init__(self) -> None:
        """Raise ConfigError for the first invalid setting."""
        check_settings(self, "learner.")
        if self.network == "gru":
            raise ConfigError(f"learner.network: expected mlp or cnn for {self.names}, got 'gru'; use ppo or qmix")


class ReplayStore:
    """Present rollout, and the replay that stores earlier ones.

    The replay stores steps as the environment returned them. Observations and actions are normalized when they are
    sampled. Invalid rows are stored as zeros.
    """

    replay: ReplayBuffer
    """Steps of earlier rollouts, on the learner's device."""

    def __init__(self, config: ReplayConfig, spec: LearnerSpec, head: Head) -> None:
        """Allocate rollout and replay.

        Raises:
            ConfigError: The replay does not fit into memory, or agents take turns.
        """
        if spec.turn_based:
            raise ConfigError(
                f"{config.names}: expected agents that all act at every step, got a turn-based game; use ppo or dqn"
            )
        shape = (spec.num_envs, spec.num_agents)
        self.config: ReplayConfig = config
        self.device: torch.device = torch.device(spec.device)
        self.captured: bool = spec.captured
        self.rollout: RolloutBuffer = RolloutBuffer(
            config.rollout_length,
            shape,
            spec.obs_width,
            head.action_shape,
            head.action_dtype,
            capacity=final_obs_capacity(
                config.rollout_length, spec.time_limit, shape[0] * shape[1], config.truncation_capacity
            ),
            device=self.device,
        )
        self._allocate(spec, head)

    def _allocate(self, spec: LearnerSpec, head: Head) -> None:
        """Allocate the replay."""
        row = (spec.num_agents,)
        fields: dict[str, tuple[tuple[int, ...], torch.dtype]] = {"reward": (row, torch.float32)}
        fields |= dict.fromkeys(("terminated", "valid"), (row, torch.bool))
        fields |= dict.fromkeys(("obs", "next_obs"), ((*row, spec.obs_width), torch.float32))
        fields["action"] = ((*row, *head.action_shape), head.action_dtype)
        if spec.has_action_mask:
            fields |= dict.fromkeys(("mask", "next_mask"), ((*row, head.num_params), torch.bool))
        self.replay = self._ring(spec, fields)

    def _ring(self, spec: LearnerSpec, fields: Fields) -> ReplayBuffer:
        c = self.config
        return ReplayBuffer(c.replay_size, spec.num_envs, fields, self.device, c.rollout_length, spec.shard)

    def store_rollout(self) -> None:
        """Move the rollout to the replay."""
        r = self.rollout
        self.check_rollout()
        obs, next_obs = zero_invalid(r.obs, r.valid), zero_invalid(r.next_obs(), r.valid & ~r.terminated)
        steps = {"obs": obs, "next_obs": next_obs, "action": zero_invalid(r.action, r.valid), **self.outcome()}
        if r.mask is not None:
            # the legal actions after a cut are unknown, so such a step has no target
            steps["valid"] = r.valid & ~(r.truncated & ~r.terminated)
            steps |= {"mask": r.mask[:-1], "next_mask": r.mask[1:]}
        self.replay.add(steps)
        r.clear()

    def check_rollout(self) -> None:
        """Raise RolloutOverflowError as `RolloutBuffer.check`; with captured updates the trainer does, with metrics."""
        if not self.captured:
            self.rollout.check()

    def outcome(self) -> dict[str, Tensor]:
        """Return reward, termination and validity of the rollout's steps, (T, E, n) by name."""
        r = self.rollout
        reward = (self.config.reward_scale * r.reward).masked_fill(~r.valid, 0.0)
        return {"reward": reward, "terminated": r.terminated, "valid": r.valid}

    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Return steps sampled uniformly from the replay, tensors (batch_size, ...) by name.

        With several ranks the result holds the steps of this rank's worlds only, and "which" their indices among all.
        """
        time, env, indices = self.replay.local_places(*self.replay.draw(self.config.batch_size, generator))
        sampled = self.replay.at(time, env)
        return sampled if indices is None else {**sampled, "which": indices}

    def stream(self, generator: torch.Generator, sampled: dict[str, Tensor]) -> SingleStream:
        """Return a generator's stream for noise on sampled steps, tensors (B, ...) by name."""
        return stream_of_rows(generator, self.config.batch_size, sampled.get("which"))

    def state_dict(self) -> State:
        """Return the replay, between two rollouts."""
        return self.replay.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Restore the replay and start a rollout; raise CheckpointError if the state does not fit."""
        self.replay.load_state_dict(state)
        self.rollout.clear()


class ReplayLearner(KernelActing, ABC):
    """Learner with an actor, a rollout and a replay.

    A subclass builds the networks and defines `act`, `_learn` and `_schedule`.
    """

    central_input: CentralInput = None
    """Input that the critics need in addition to the agents' observations."""
    reducer: GradientReducer = LOCAL_REDUCER
    """Sum of gradients and statistics over the processes that train together."""
    experience: ReplayStore
    """Rollout and replay."""
    net: nn.ModuleDict
    """All networks and normalizers."""
    optimizers: dict[str, torch.optim.Optimizer]
    """Optimizers by name."""

    def __init__(self, spec: LearnerSpec) -> None:
        """Set the device, the random streams and the capture of gradient steps."""
        self.learner_spec = spec
        self.device: torch.device = torch.device(spec.device)
        self.steps: int = 0
        self.generator: torch.Generator = torch.Generator(self.device).manual_seed(spec.seed)
        self.stream: SingleStream = stream_of_shard(self.generator, spec.shard)
        self.num_envs_total: int = spec.num_envs_total
        self.updates: CapturedUpdates = CapturedUpdates(
            spec.captured, self, lambda: (*self.experience.replay.buffers.values(),)
        )

    def observe(self, transition: Transition) -> None:
        """Store the results of the last actions."""
        self.rollout.end_step(transition)

    def update(self) -> dict[str, Tensor]:
        """Move the rollout to the replay and learn from it; gradient steps are CUDA graphs if the spec is `captured`.

        Returns:
            Metrics, scalars on the device; empty before `learning_starts`.
        """
        c = self.experience.config
        self._store_rollout()
        results: list[dict[str, Tensor]] = []
        if self.steps >= c.learning_starts:
            results = [self._learn() for _ in range(c.updates)]
        metrics = mean_metrics(results)
        self._schedule()
        return metrics

    @abstractmethod
    def _learn(self) -> dict[str, Tensor]:
        """Take one gradient step on sampled steps; return metrics, scalars on the device."""

    @abstractmethod
    def _schedule(self) -> None:
        """Set what changes over the training, for the next rollout."""

    def _store_rollout(self) -> None:
        """Move the rollout to the replay and count its steps."""
        if self.experience.config.normalize_obs:
            self._normalize()
        self.experience.store_rollout()
        self.steps += self.rollout.length * self.num_envs_total

    def _normalize(self) -> None:
        """Add the rollout's observations to the running statistics."""
        self.normalizer.update(self.rollout.obs, self.rollout.valid, self.reducer.sum)


def critic_values(critics: nn.ModuleList, situation: Tensor, code: Tensor | None = None) -> Tensor:
    """Return C critics' values for situations (B, n, ...): (C, B, n) of codes, or (C, B, n, choices) of all choices."""
    if code is None:
        return torch.stack([critic(situation) for critic in critics])
    x = torch.cat([situation, code], -1)
    return torch.stack([critic(x).squeeze(-1) for critic in critics])


def critic_step(
    values: Tensor,
    target: Tensor,
    valid: Tensor,
    reducer: GradientReducer,
    optimizer: torch.optim.Optimizer,
    c: ReplayConfig,
) -> dict[str, Tensor]:
    """Take one gradient step of C critics with values (C, B, n) on the squared error to targets (B, n)."""
    count = reducer.divisor(valid)
    loss = masked_mean((values - target).square().sum(0), valid, count)
    norm = reducer.step(optimizer, loss, c.max_grad_norm)
    value = masked_mean(values.detach().mean(0), valid, count)
    return {"critic_loss": loss.detach(), "critic_grad_norm": norm, "value": value}


def zero_invalid(rows: Tensor, valid: Tensor) -> Tensor:
    """Return rows (..., X) or (...) with zeros where `valid` (...) is False."""
    return rows.masked_fill(~valid.view(*valid.shape, *[1] * (rows.dim() - valid.dim())), 0)


def mean_metrics(results: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each metric, scalars by name, over the gradient steps that have it."""
    by_name: dict[str, list[Tensor]] = {}
    for metrics in results:
        for name, value in metrics.items():
            by_name.setdefault(name, []).append(value)
    return {name: torch.stack(values).mean() for name, values in by_name.items()}
