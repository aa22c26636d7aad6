"""TD3 (Fujimoto et al. 2018) and DDPG (Lillicrap et al. 2016) for agents that share one policy.

DDPG is TD3 without its three remedies: one critic instead of the smaller of two, no delay of the policy, no noise on
target actions. Truncations are bootstrapped from the true last observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import Bounds, setting
from trainers.algorithms.off_policy.critic_learner import COPIED_FIELDS, CriticConfig, CriticLearner
from trainers.base.gradients import Schedule, find_schedule
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam
from trainers.base.random_streams import SingleStream, normal, uniform
from trainers.models.action_heads import (
    CategoricalHead,
    GaussianHead,
    TanhGaussianHead,
    TanhHead,
    action_spec,
    make_head,
)
from trainers.models.networks import Network, polyak_update, target_copy
from trainers.models.normalization import ObservationNormalizer, masked_mean
from trainers.models.policy import mask_spec


@dataclass(frozen=True)
class TD3Config(CriticConfig):
    """Settings of TD3. Actions and their noise are scaled to the box [-1, 1]."""

    names = "td3 and ddpg"
    twin: bool = True
    """Train two critics and use the smaller value in targets, against overestimation."""
    policy_delay: int = setting(2, ge=1)
    """Gradient steps of the critic per step of the policy and the target networks."""
    target_noise: float = setting(0.2, ge=0)
    """Standard deviation of the noise on target actions."""
    target_noise_clip: float = setting(0.5, ge=0, requires={"target_noise": Bounds(gt=0)})
    """Bound of the noise on target actions."""
    noise: float = setting(0.1, ge=0)
    """Standard deviation of the exploration noise at the start.
    For discrete actions (MADDPG): the probability of a uniformly random action."""
    noise_final: float = setting(0.1, ge=0)
    """Exploration noise after `total_steps`, reached along `schedule`."""
    schedule: str = setting("linear", choices=("linear",), by_name=True)
    """Way of every setting NAME to NAME_final: "linear", or "module:NAME", a function from progress in [0, 1] to the
    share of the way."""


class TD3(CriticLearner):
    """Learner of TD3. Critics value observations together with action codes. Its policy acts without noise."""

    kernel_methods: tuple[str, ...] = ("act", "observe", "_noisy")
    exploration: tuple[str, ...] = ("exploring", "noise")

    def __init__(self, config: TD3Config, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        if self.central_input is None and not isinstance(spec.action_space, spaces.Box):
            raise ConfigError(f"{config.names}: expected continuous actions, got {spec.action_space}; use sac or dqn")
        super().__init__(config, spec)
        self.scheduled: Schedule = find_schedule("learner.schedule", config.schedule)
        weights = torch.Generator().manual_seed(spec.seed)
        action = action_spec(spec.action_space, box="tanh")
        head = make_head(action)
        assert not isinstance(head, GaussianHead)
        self.head: CategoricalHead | TanhGaussianHead | TanhHead = head
        self.discrete: bool = isinstance(head, CategoricalHead)
        self.spec: dict[str, Any] = {
            **config.spec(spec.obs_width, spec.layout),
            **mask_spec(spec.has_action_mask),
            "action": action,
        }
        self.normalizer: ObservationNormalizer = ObservationNormalizer(spec.obs_width, self.spec)
        self.actor: Network = Network(self.spec, head.num_params, 0.01, weights)
        count = 1 + config.twin
        self.critics: nn.ModuleList = nn.ModuleList(
            [self._make_critic(spec, head.code_width, 1, weights) for _ in range(count)]
        )
        self.target_actor: Network = target_copy(self.actor)
        self.target_critics: torch.nn.ModuleList = target_copy(self.critics)
        parts = {"normalizer": self.normalizer, "head": head, "actor": self.actor, "critics": self.critics}
        parts |= {"target_actor": self.target_actor, "target_critics": self.target_critics}
        self.net: nn.ModuleDict = nn.ModuleDict(parts).to(self.device)
        learned = {"actor": self.actor, "critic": self.critics}
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            name: make_adam(net.parameters(), config.learning_rate, spec.captured) for name, net in learned.items()
        }
        self._allocate()
        # on the device, and changed only between rollouts, so that a rollout can be captured as a CUDA graph
        self.exploring: Tensor = torch.zeros((), dtype=torch.bool, device=self.device)
        self.noise: Tensor = torch.zeros((), device=self.device)
        self._schedule()

    def _schedule(self) -> None:
        c = self.config
        self.exploring.fill_(self.steps < c.learning_starts)
        self.noise.fill_(self.scheduled(c.noise, c.noise_final, self.steps / self.total_steps))

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Return noisy actions, uniform until `learning_starts`; arguments and shapes as in `Learner.act`."""
        obs, mask = self.rollout.begin_step(obs, mask, to_move, state)
        params = self.hidden_states.step(self.actor, self.normalizer(obs), mask)
        code = self._noisy(self.head.relaxed(params, self.stream, mask)[0], self.noise, None, self.stream)
        at_random = self.exploring
        if self.discrete:
            at_random = at_random | (uniform(obs[..., :1], self.stream) < self.noise)
        code = torch.where(at_random, self.head.random(params, self.stream, mask), code)
        action = self.head.decode(code)
        self.rollout.store_action(action)
        return action

    def _learn(self) -> dict[str, Tensor]:
        self.gradient_steps += 1
        moves_policy = self.gradient_steps % self.config.policy_delay == 0
        return self.updates.captured(f"policy {moves_policy}", partial(self._gradient_step, moves_policy))()

    def _gradient_step(self, learn_policy: bool) -> dict[str, Tensor]:
        """Take one step of the critics and, with `learn_policy`, of the policy and the target networks."""
        batch = self._prepare_batch(self.draw())
        metrics = self._critic_step(batch)
        if learn_policy:
            metrics |= self._actor_step(batch)
            polyak_update(self.target_actor, self.actor, self.config.tau)
            polyak_update(self.target_critics, self.critics, self.config.tau)
        return metrics | {"noise": self.noise.clone()}

    @torch.no_grad()
    def _prepare_batch(self, sampled: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the network inputs of sampled steps, (B, n, ...) by name; with a hidden state (L, B, n, ...).

        - obs, mask: inputs of the actor.
        - situation, next_situation: inputs of the critics without the action.
        - code, next_code: codes of the action taken and of the target policy's next action.
        - reward, terminated, valid, which, episode_starts, hidden_state: as sampled.
        """
        obs = self.normalizer(sampled["obs"])
        inputs = {name: sampled[name] for name in COPIED_FIELDS if name in sampled}
        inputs |= {"obs": obs, "situation": obs, "code": self.head.encode(sampled["action"])}
        inputs["next_situation"] = self.normalizer(sampled["next_obs"])
        stream = self._noise_stream(sampled)
        hidden_state = self.hidden_states.states_after(self.target_actor, obs, inputs, inputs.get("hidden_state"))
        inputs["next_code"], _ = self.target_actions(sampled["next_obs"], stream, None, hidden_state)
        return inputs

    @torch.no_grad()
    def target_actions(
        self, obs: Tensor, stream: SingleStream, mask: Tensor | None = None, hidden_state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return noisy codes (B, n, code_width) of the target policy's actions, and entropies (B, n), unused here."""
        c = self.config
        params = self.target_actor.step(self.normalizer(obs), hidden_state, mask)[0]
        code, log_prob = self.head.relaxed(params, stream, mask)
        return self._noisy(code, c.target_noise, c.target_noise_clip, stream), -log_prob

    def _noisy(self, code: Tensor, scale: Tensor | float, clip: float | None, stream: SingleStream) -> Tensor:
        """Return continuous actions with added noise; discrete ones unchanged, since they are sampled already."""
        if self.discrete:
            return code
        noise = scale * normal(code, stream)
        return (code + (noise if clip is None else noise.clamp(-clip, clip))).clamp(-1.0, 1.0)

    def _critic_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Take one step on the squared error to the target, the smaller value of the target critics (eq. 10)."""
        with torch.no_grad():
            states = self._states_of_steps(self.target_critics, batch, after=True)
            next_value = self._values(self.target_critics, batch["next_situation"], batch["next_code"], states).amin(0)
            target = batch["reward"] + self.config.gamma * next_value.masked_fill(batch["terminated"], 0.0)
        values = self._values_of_steps(self.critics, batch)
        return self._step_critics(values, target, batch["valid"])

    def _actor_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Take one step of the policy on the first critic's value."""
        self.critics.requires_grad_(False)
        start, mask = batch.get("hidden_state"), batch.get("mask")
        params = self.hidden_states.unroll(self.actor, batch["obs"], batch, start, mask)[0]
        code, _ = self.head.relaxed(params, self._noise_stream(batch), mask)
        states = self._states_of_steps(self.critics[:1], batch, after=False)
        value = self._values(self.critics[:1], batch["situation"], code, states)[0]
        valid = batch["valid"]
        loss = masked_mean(self._penalty(params) - value, valid, self.reducer.divisor(valid))
        norm = self.reducer.step(self.optimizers["actor"], loss, self.config.max_grad_norm)
        self.critics.requires_grad_(True)
        return {"actor_loss": loss.detach(), "actor_grad_norm": norm}

    def _penalty(self, params: Tensor) -> Tensor:
        """Return the penalty (B, n) on a policy's outputs (B, n, ...)."""
        return torch.zeros_like(params[..., 0])
