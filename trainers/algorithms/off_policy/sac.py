"""Soft actor-critic (SAC, Haarnoja et al. 2018) for agents that share one policy, with a learned temperature.

Continuous actions are tanh-Gaussian. For discrete actions (Christodoulou 2019) critics output the values of all
choices, and expectations over the policy are exact.

Multi-discrete actions are independent categoricals with too many joint choices for that. Critics value one-hot codes of
one choice per component, which allows components to interact; values that add up over components (Tavakoli et al. 2018)
do not. The policy follows them by straight-through Gumbel-softmax (Jang et al. 2017), as in MADDPG. Its entropy, the
sum over components, is exact.

Truncations are bootstrapped from the true last observation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gpu_envs.utils.settings import setting
from trainers.algorithms.off_policy.critic_learner import COPIED_FIELDS, CriticConfig, CriticLearner
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam
from trainers.base.random_streams import SingleStream
from trainers.models.action_heads import CategoricalHead, TanhGaussianHead, action_spec, make_head
from trainers.models.networks import Network, polyak_update, target_copy
from trainers.models.normalization import ObservationNormalizer, masked_mean
from trainers.models.policy import mask_spec


@dataclass(frozen=True)
class SACConfig(CriticConfig):
    """Settings of SAC. Entropies are in nats, for continuous actions with respect to the box [-1, 1]."""

    names = "sac"
    temperature: float = setting(0.2, gt=0)
    """Weight of the entropy at the start. Raise it for more exploration."""
    learn_temperature: bool = True
    """Adapt the temperature so that the policy's entropy approaches its target."""
    target_entropy: float | None = setting(None, requires={"learn_temperature": True})
    """Target entropy [nats]. None: -K for K continuous dimensions; for discrete actions see `target_share`."""
    target_share: float = setting(0.5, ge=0, le=1, requires={"learn_temperature": True, "target_entropy": None})
    """Target entropy of discrete actions, as a share of the entropy of a uniform choice among legal actions.
    Christodoulou 2019 uses 0.98, a nearly uniform policy."""


class SAC(CriticLearner):
    """Learner of SAC. Critics value observations together with action codes."""

    kernel_methods: tuple[str, ...] = ("act", "observe")
    exploration: tuple[str, ...] = ("exploring",)
    counters: tuple[str, ...] = ("steps",)
    config: SACConfig
    """Settings of the learner."""

    def __init__(self, config: SACConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        super().__init__(config, spec)
        weights = torch.Generator().manual_seed(spec.seed)
        action = action_spec(spec.action_space, box="tanh_gaussian")
        head = make_head(action)
        assert isinstance(head, CategoricalHead | TanhGaussianHead)
        self.head: CategoricalHead | TanhGaussianHead = head
        self.discrete: bool = isinstance(head, CategoricalHead)
        self.values_all_choices: bool = isinstance(head, CategoricalHead) and not head.multi
        self.spec: dict[str, Any] = {
            **config.spec(spec.obs_width, spec.layout),
            **mask_spec(spec.has_action_mask),
            "action": action,
        }
        self.normalizer: ObservationNormalizer = ObservationNormalizer(spec.obs_width, self.spec)
        self.actor: Network = Network(self.spec, head.num_params, 0.01, weights)
        code_width, values = (0, head.code_width) if self.values_all_choices else (head.code_width, 1)
        self.critics: nn.ModuleList = nn.ModuleList(
            [self._make_critic(spec, code_width, values, weights) for _ in range(2)]
        )
        self.target_critics: torch.nn.ModuleList = target_copy(self.critics)
        self.log_temperature: torch.nn.Parameter = nn.Parameter(torch.tensor(math.log(config.temperature)))
        parts = {"normalizer": self.normalizer, "head": head, "actor": self.actor, "critics": self.critics}
        self.net: nn.ModuleDict = nn.ModuleDict({**parts, "target_critics": self.target_critics})
        self.net.register_parameter("log_temperature", self.log_temperature)
        self.net.to(self.device)
        learned = {"actor": self.actor.parameters(), "critic": self.critics.parameters()}
        learned["temperature"] = iter([self.log_temperature])
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            name: make_adam(parameters, config.learning_rate, spec.captured) for name, parameters in learned.items()
        }
        self._allocate()
        # on the device, and changed only between rollouts, so that a rollout can be captured as a CUDA graph
        self.exploring: Tensor = torch.full((), config.learning_starts > 0, device=self.device)

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Sample actions, uniformly until `learning_starts`; arguments and shapes as in `Learner.act`."""
        obs, mask = self.rollout.begin_step(obs, mask, to_move, state)
        params = self.hidden_states.step(self.actor, self.normalizer(obs), mask)
        code = self.head.relaxed(params, self.stream, mask)[0]
        code = torch.where(self.exploring, self.head.random(params, self.stream, mask), code)
        action = self.head.decode(code)
        self.rollout.store_action(action)
        return action

    def _schedule(self) -> None:
        self.exploring.fill_(self.steps < self.config.learning_starts)

    def _learn(self) -> dict[str, Tensor]:
        return self.updates.captured("step", self._gradient_step)()

    def _gradient_step(self) -> dict[str, Tensor]:
        """Take one step of critics, policy and temperature, and move the target networks."""
        batch = self._prepare_batch(self.draw())
        metrics = self._critic_step(batch) | self._actor_step(batch)
        polyak_update(self.target_critics, self.critics, self.config.tau)
        return metrics

    @torch.no_grad()
    def _prepare_batch(self, sampled: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the network inputs of sampled steps, (B, n, ...) by name; with a hidden state (L, B, n, ...).

        - obs, mask: inputs of the actor.
        - situation, next_situation: inputs of the critics without the action.
        - code: code of the action taken.
        - next_code, next_entropy: code and entropy of the policy's next action.
        - next_table: log-probabilities of all choices, if critics value all of them.
        - reward, terminated, valid, which, episode_starts, hidden_state: as sampled.
        """
        inputs = {name: sampled[name] for name in (*COPIED_FIELDS, "mask") if name in sampled}
        obs, next_obs = self.normalizer(sampled["obs"]), self.normalizer(sampled["next_obs"])
        inputs |= {"obs": obs, "situation": obs, "next_situation": next_obs}
        inputs["code"] = self.head.encode(sampled["action"])
        start = inputs.get("hidden_state")
        hidden_state = self.hidden_states.states_after(self.actor, obs, inputs, start, inputs.get("mask"))
        return inputs | self._next(next_obs, self._noise_stream(sampled), sampled.get("next_mask"), hidden_state)

    def _next(
        self,
        next_obs: Tensor,
        stream: SingleStream,
        next_mask: Tensor | None = None,
        hidden_state: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the policy's actions on normalized observations (B, n, D), see `_prepare_batch`."""
        params = self.actor.step(next_obs, hidden_state, next_mask)[0]
        if self.values_all_choices:
            return {"next_table": self._table(params, next_mask)[..., 0, :]}
        code, entropy = self._draw(params, stream, next_mask)
        return {"next_code": code, "next_entropy": entropy}

    @torch.no_grad()
    def target_actions(
        self, obs: Tensor, stream: SingleStream, mask: Tensor | None = None, hidden_state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return codes (B, n, code_width) of the policy's actions on observations (B, n, D), and entropies (B, n)."""
        return self._draw(self.actor.step(self.normalizer(obs), hidden_state, mask)[0], stream, mask)

    def _table(self, params: Tensor, mask: Tensor | None) -> Tensor:
        """Return log-probabilities (B, n, K, choices) of discrete actions."""
        assert isinstance(self.head, CategoricalHead)
        return self.head.log_probs(params, mask)

    def _draw(self, params: Tensor, stream: SingleStream, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return differentiable codes and entropies (B, n): exact for discrete actions, else of the sample."""
        code, log_prob = self.head.relaxed(params, stream, mask)
        return code, entropy_of(self._table(params, mask)) if self.discrete else -log_prob

    def _critic_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Take one step on the squared error to the soft target (eq. 5), the smaller of two target values."""
        with torch.no_grad():
            temperature = self.log_temperature.exp()
            states = self._states_of_steps(self.target_critics, batch, after=True)
            if self.values_all_choices:
                table = batch["next_table"]
                next_values = self._values(self.target_critics, batch["next_situation"], None, states).amin(0)
                next_value = (table.exp() * (next_values - temperature * table)).sum(-1)
            else:
                next_code = batch["next_code"]
                next_values = self._values(self.target_critics, batch["next_situation"], next_code, states).amin(0)
                next_value = next_values + temperature * batch["next_entropy"]
            target = batch["reward"] + self.config.gamma * next_value.masked_fill(batch["terminated"], 0.0)
        values = self._values_of_steps(self.critics, batch)
        if self.values_all_choices:
            values = (values * batch["code"]).sum(-1)
        return self._step_critics(values, target, batch["valid"])

    def _actor_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Take one step of the policy on the critics' values and its entropy (eq. 9), and one of the temperature."""
        c, valid, mask = self.config, batch["valid"], batch.get("mask")
        count = self.reducer.divisor(valid)
        temperature = self.log_temperature.detach().exp()
        self.critics.requires_grad_(False)
        params = self.hidden_states.unroll(self.actor, batch["obs"], batch, batch.get("hidden_state"), mask)[0]
        if self.values_all_choices:
            table, values = self._table(params, mask), self._values_of_steps(self.critics, batch).amin(0)
            entropy, value = entropy_of(table), (table[..., 0, :].exp() * values).sum(-1)
        else:
            code, entropy = self._draw(params, self._noise_stream(batch), mask)
            states = self._states_of_steps(self.critics, batch, after=False)
            value = self._values(self.critics, batch["situation"], code, states).amin(0)
        loss = -masked_mean(value + temperature * entropy, valid, count)
        norm = self.reducer.step(self.optimizers["actor"], loss, c.max_grad_norm)
        self.critics.requires_grad_(True)
        entropy = entropy.detach()
        if c.learn_temperature:
            missing = self._target_entropy(params, mask) - entropy
            self.reducer.step(
                self.optimizers["temperature"], -self.log_temperature * masked_mean(missing, valid, count)
            )
        metrics = {"actor_loss": loss.detach(), "actor_grad_norm": norm, "entropy": masked_mean(entropy, valid, count)}
        return metrics | {"temperature": temperature}

    def _target_entropy(self, params: Tensor, mask: Tensor | None) -> Tensor | float:
        """Return the target entropy, for all rows or per row."""
        if self.config.target_entropy is not None:
            return self.config.target_entropy
        if not self.discrete:
            return float(-self.head.code_width)
        return self.config.target_share * entropy_of(self._table(torch.zeros_like(params), mask))


def entropy_of(table: Tensor) -> Tensor:
    """Return the entropies (...) of independent categoricals with log-probabilities (..., K, choices)."""
    return -(table.exp() * table).sum((-1, -2))
