"""Settings, replay and critics shared by TD3, SAC and their multi-agent forms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import check_settings, setting
from trainers.algorithms.off_policy.hidden_states import HiddenStates, WindowConfig
from trainers.algorithms.off_policy.kernel_acting import KernelActing
from trainers.algorithms.off_policy.replay_learner import ReplayLearner
from trainers.base.learner_spec import LearnerSpec
from trainers.base.random_streams import SingleStream, stream_of_rows
from trainers.buffers.replay_buffer import Fields, ReplayBuffer
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.networks import ACTIVATIONS, Network, with_block
from trainers.models.normalization import masked_mean

COPIED_FIELDS = ("reward", "terminated", "valid", "which", "episode_starts", "hidden_state")
"""Fields of sampled steps that losses use unchanged; "which" is described in `CriticLearner.draw`."""


@dataclass(frozen=True)
class CriticConfig(WindowConfig):
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
    """Steps per gradient step, each with all agents of the policy; with a GRU, windows of steps."""
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


class CriticLearner(KernelActing, ReplayLearner):
    """Learner with an actor and critics of actions.

    The replay stores steps as the environment returned them, with zeros in invalid rows. Observations and actions are
    normalized when they are sampled. Recurrent critics have hidden states of their own, zeros before the burn-in.
    """

    critics: nn.ModuleList
    """C critics."""
    values_all_choices: bool = False
    """Whether critics output the values of all choices, not that of a code."""

    def __init__(self, config: CriticConfig, spec: LearnerSpec) -> None:
        """Set the device and the random streams; raise ConfigError if agents take turns."""
        if spec.turn_based:
            raise ConfigError(
                f"{config.names}: expected agents that all act at every step, got a turn-based game; use ppo or dqn"
            )
        super().__init__(config, spec)

    @abstractmethod
    def target_actions(
        self, obs: Tensor, stream: SingleStream, mask: Tensor | None = None, hidden_state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return codes (B, n, code_width) of the policy's actions on observations (B, n, D), and entropies (B, n).

        Args:
            obs: (B, n, D) observations.
            stream: Random stream of the calling learner, so that learners do not depend on each other's streams.
            mask: (B, n, choices), True = legal; None: all actions are legal.
            hidden_state: (B, n, H), of a recurrent policy.
        """

    def _allocate(self) -> None:
        """Allocate rollout and replay.

        Raises:
            ConfigError: The replay does not fit into memory, or networks have hidden states that are not supported.
        """
        c, spec, critic = self.config, self.learner_spec, self.critics[0]
        assert isinstance(critic, Network)
        if self.central_input is not None:
            self.actor.check_feedforward(c.names)
            critic.check_feedforward(c.names)
        if critic.hidden_width and not self.actor.hidden_width:
            raise ConfigError(
                f"learner.network: expected an actor with a hidden state where the critic has one for {c.names}, got "
                f"{type(self.actor.module).__name__}; give the actor one, or use ppo"
            )
        self.rollout: RolloutBuffer = RolloutBuffer.for_learner(
            spec, self.head, c.rollout_length, c.truncation_capacity
        )
        self.hidden_states: HiddenStates = HiddenStates(c, self.actor, self.rollout)
        if fields := self._fields(spec):
            least = max(c.rollout_length, self.hidden_states.window)
            self.replay: ReplayBuffer = ReplayBuffer(
                c.replay_size, spec.num_envs, fields, self.device, least, spec.shard
            )

    def _fields(self, spec: LearnerSpec) -> Fields:
        """Return the fields of the replay; {}: another learner has it."""
        row = (spec.num_agents,)
        fields: dict[str, tuple[tuple[int, ...], torch.dtype]] = {"reward": (row, torch.float32)}
        fields |= dict.fromkeys(("terminated", "valid"), (row, torch.bool))
        fields |= dict.fromkeys(("obs", "next_obs"), ((*row, spec.obs_width), torch.float32))
        fields["action"] = ((*row, *self.head.action_shape), self.head.action_dtype)
        if spec.has_action_mask:
            fields |= dict.fromkeys(("mask", "next_mask"), ((*row, self.head.num_params), torch.bool))
        return {**fields, **self.hidden_states.fields()}

    def _make_critic(self, spec: LearnerSpec, code_width: int, outputs: int, weights: torch.Generator) -> Network:
        """Build a critic of situations and codes of width `code_width`."""
        network_spec = with_block(self.config.spec(spec.obs_width, spec.layout), "action", code_width)
        return Network(network_spec, outputs, 1.0, weights, "critic")

    def _values(
        self,
        critics: nn.ModuleList,
        situation: Tensor,
        code: Tensor | None = None,
        hidden_states: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Return C critics' values for situations (B, n, ...), and for recurrent critics hidden states before them.

        They are (C, B, n) for codes, and (C, B, n, choices) for all choices.
        """
        x, networks = situation if code is None else torch.cat([situation, code], -1), list[Any](critics)
        if hidden_states is None:
            values = [critic(x) for critic in networks]
        else:
            values = [critic.step(x, state)[0] for critic, state in zip(networks, hidden_states, strict=True)]
        return torch.stack(values) if code is None else torch.stack(values).squeeze(-1)

    def _values_of_steps(self, critics: nn.ModuleList, batch: dict[str, Tensor]) -> Tensor:
        """Return C critics' values for the steps of a batch, as `_values`."""
        if not self.hidden_states.width:
            return self._values(critics, batch["situation"], None if self.values_all_choices else batch["code"])
        values = self._unroll(critics, batch)[0]
        return values if self.values_all_choices else values.squeeze(-1)

    @torch.no_grad()
    def _states_of_steps(self, critics: nn.ModuleList, batch: dict[str, Tensor], after: bool) -> list[Tensor] | None:
        """Return C critics' hidden states (L, B, n, H) before or after the steps of a batch; None without one."""
        if not self.hidden_states.width:
            return None
        states = self._unroll(critics, batch)[1]
        return states if after else [self.hidden_states.states_before(state, batch) for state in states]

    def _unroll(self, critics: nn.ModuleList, batch: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return C critics' outputs (C, L, B, n, outputs) for the steps of a batch, and hidden states after them."""
        x = batch["situation"]
        x = x if self.values_all_choices else torch.cat([x, batch["code"]], -1)
        results: list[Any] = [self.hidden_states.unroll(critic, x, batch) for critic in list[Any](critics)]
        return torch.stack([outputs for outputs, _ in results]), [states for _, states in results]

    def _store_rollout(self) -> None:
        r = self.rollout
        obs, next_obs = zero_invalid(r.obs, r.valid), zero_invalid(r.next_obs(), r.valid & ~r.terminated)
        steps = {"obs": obs, "next_obs": next_obs, "action": zero_invalid(r.action, r.valid), **self._outcome()}
        if r.mask is not None:
            # the legal actions after a cut are unknown, so such a step has no target
            steps["valid"] = r.valid & ~(r.truncated & ~r.terminated)
            steps |= {"mask": r.mask[:-1], "next_mask": r.mask[1:]}
        self.replay.add(steps | self.hidden_states.steps())

    def _can_learn(self) -> bool:
        return self.replay.filled >= self.hidden_states.window

    def _outcome(self) -> dict[str, Tensor]:
        """Return reward, termination and validity of the rollout's steps, (T, E, n) by name."""
        r = self.rollout
        reward = (self.config.reward_scale * r.reward).masked_fill(~r.valid, 0.0)
        return {"reward": reward, "terminated": r.terminated, "valid": r.valid}

    def draw(self) -> dict[str, Tensor]:
        """Return steps sampled uniformly from the replay, tensors (batch_size, ...) by name.

        With a hidden state these are windows (L, batch_size, ...), see `HiddenStates.sample`. With several ranks the
        result holds the steps of this rank's worlds only, and "which" their indices among all.
        """
        states, count = self.hidden_states, self.config.batch_size
        time, env, indices = self.replay.local_places(*self.replay.draw(count, self.generator, states.window))
        sampled = states.sample(self.replay, time, env) if states.width else self.replay.at(time, env)
        return sampled if indices is None else {**sampled, "which": indices}

    def _noise_stream(self, sampled: dict[str, Tensor]) -> SingleStream:
        """Return the random stream of noise on sampled steps, tensors (B, ...) by name."""
        axis = 1 if self.hidden_states.width else 0
        return stream_of_rows(self.generator, self.config.batch_size, sampled.get("which"), axis)

    def _step_critics(self, values: Tensor, target: Tensor, valid: Tensor) -> dict[str, Tensor]:
        """Take one gradient step of C critics with values (C, B, n) on the squared error to targets (B, n)."""
        count = self.reducer.divisor(valid)
        loss = masked_mean((values - target).square().sum(0), valid, count)
        norm = self.reducer.step(self.optimizers["critic"], loss, self.config.max_grad_norm)
        value = masked_mean(values.detach().mean(0), valid, count)
        return {"critic_loss": loss.detach(), "critic_grad_norm": norm, "value": value}


def zero_invalid(rows: Tensor, valid: Tensor) -> Tensor:
    """Return rows (..., X) or (...) with zeros where `valid` (...) is False."""
    return rows.masked_fill(~valid.view(*valid.shape, *[1] * (rows.dim() - valid.dim())), 0)
