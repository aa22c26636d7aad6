"""Soft actor-critic (Haarnoja et al. 2018) for a group of agents that share one policy, with a learned temperature.

Continuous actions are tanh-Gaussian. With discrete ones (Christodoulou 2019) critics give the value of every choice at
once, and expectations over the policy are exact. Truncations are bootstrapped from the true last observation.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from trainers.bodies import Network
from trainers.experience import Experience, ReplayConfig, means
from trainers.heads import CategoricalHead, TanhGaussianHead, action_spec, make_head
from trainers.learner import ALONE, Central, Descent, State, restore, saved
from trainers.nets import ObservationNormalizer, follow, masked_mean
from trainers.policy import Policy, snapshot
from trainers.problem import Problem
from trainers.rollout import Transition
from trainers.settings import setting


@dataclass(frozen=True)
class SACConfig(ReplayConfig):
    """Settings of SAC. Entropies are in nats, those of continuous actions in a box of [-1, 1]."""

    temperature: float = setting(0.2, "> 0")
    """Weight of the entropy at the start."""
    learn_temperature: bool = True
    """Change it so that the policy's entropy comes to the target."""
    target_entropy: float | None = None
    """Entropy that the temperature aims at; None: -K for K continuous dimensions, and for discrete actions
    `target_share` of the entropy of a uniform choice among the legal ones."""
    target_share: float = setting(0.5, "in [0, 1]")
    """See `target_entropy`; Christodoulou 2019 takes 0.98, a policy that stays close to uniform."""


class SAC:
    """The learner. What its critics judge is an observation (`_look` says of what) and an action's code."""

    central: Central = None
    descent: Descent = ALONE

    def __init__(self, config: SACConfig, problem: Problem) -> None:
        """Builds networks and buffers."""
        if isinstance(problem.action_space, spaces.MultiDiscrete):
            raise ConfigError(f"sac needs Discrete or continuous actions, got {problem.action_space}; use ppo")
        self.config, self.steps = config, 0
        self.device = torch.device(problem.device)
        self.generator = torch.Generator(self.device).manual_seed(problem.seed)
        weights = torch.Generator().manual_seed(problem.seed)
        action = action_spec(problem.action_space, box="tanh_gaussian")
        head = make_head(action)
        assert isinstance(head, CategoricalHead | TanhGaussianHead)
        self.head, self.discrete = head, isinstance(head, CategoricalHead)
        self.spec = {**config.spec(problem.obs_width), "action": action}
        self.normalizer = ObservationNormalizer(problem.obs_width)
        self.actor = Network(self.spec, head.num_params, 0.01, weights)
        critic = config.spec(self._seen_width(problem) + (0 if self.discrete else head.code_width))
        values = head.code_width if self.discrete else 1
        self.critics = nn.ModuleList([Network(critic, values, 1.0, weights) for _ in range(2)])
        self.target_critics = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(config.temperature)))
        parts = {"normalizer": self.normalizer, "head": head, "actor": self.actor, "critics": self.critics}
        self.net = nn.ModuleDict({**parts, "target_critics": self.target_critics})
        self.net.register_parameter("log_temperature", self.log_temperature)
        self.net.to(self.device)
        learned = {"actor": self.actor.parameters(), "critic": self.critics.parameters()}
        learned["temperature"] = iter([self.log_temperature])
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            name: torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)
            for name, parameters in learned.items()
        }
        self.experience = Experience(config, problem, head, joint=self.central == "joint")
        self.rollout = self.experience.rollout
        # on the device, and changed between rollouts only: a rollout can be captured as a CUDA graph
        self.exploring = torch.full((), config.learning_starts > 0, device=self.device)

    def _seen_width(self, problem: Problem) -> int:
        """Width of a situation, see `_look`."""
        return problem.obs_width

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Samples actions, uniformly random ones at first; arguments and shapes as `Learner.act`."""
        obs, mask = self.rollout.begin(obs, mask, to_move, state)
        params = self.actor(self.normalizer(obs))
        code = self.head.relaxed(params, self.generator, mask)[0]
        code = torch.where(self.exploring, self.head.random(params, self.generator, mask), code)
        action = self.head.decode(code)
        self.rollout.decide(action)
        return action

    def observe(self, transition: Transition) -> None:
        """Stores what came of the last actions."""
        self.rollout.end(transition)

    def update(self) -> dict[str, Tensor]:
        """Moves the rollout to the replay and learns from that; returns metrics, none before `learning_starts`."""
        c, rollout = self.config, self.rollout
        if c.normalize_obs:
            self._normalize()
        self.experience.keep()
        self.steps += rollout.length * rollout.obs.shape[1]
        found: list[dict[str, Tensor]] = []
        if self.steps >= c.learning_starts:
            for _ in range(c.updates):
                batch = self._look(self.experience.draw(self.generator))
                found += [self._critic_step(batch), self._actor_step(batch)]
                follow(self.target_critics, self.critics, c.tau)
        self.exploring.fill_(self.steps < c.learning_starts)
        return means(found)

    def _normalize(self) -> None:
        """Takes the rollout's observations into the statistics."""
        rollout = self.rollout
        self.normalizer.update(rollout.obs, rollout.valid, self.descent.sum)

    @torch.no_grad()
    def _look(self, drawn: dict[str, Tensor]) -> dict[str, Tensor]:
        """What networks need of drawn steps, (B, n, ...) by name.

        obs, mask: What the actor sees. situation, next_situation: What the critics see beside an action. code: The
        action taken. next_code, next_log_prob: The policy's next one; for discrete actions all there are, next_table.
        reward, terminated, valid: As drawn.
        """
        look = {name: drawn[name] for name in ("reward", "terminated", "valid", "mask") if name in drawn}
        obs, next_obs = self.normalizer(drawn["obs"]), self.normalizer(drawn["next_obs"])
        look |= {"obs": obs, "situation": obs, "next_situation": next_obs}
        look["code"] = self.head.encode(drawn["action"])
        return look | self._next(next_obs, drawn.get("next_mask"))

    def _next(self, next_obs: Tensor, next_mask: Tensor | None = None) -> dict[str, Tensor]:
        """What the policy does on normalised observations (B, n, D), see `_look`."""
        params = self.actor(next_obs)
        if isinstance(self.head, CategoricalHead):
            return {"next_table": self.head.log_probs(params, next_mask)[..., 0, :]}
        code, log_prob = self.head.relaxed(params, self.generator)
        return {"next_code": code, "next_log_prob": log_prob}

    def _critic_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """One step on the squared distance to the soft target (eq. 5), by the smaller of the target critics' values."""
        with torch.no_grad():
            temperature = self.log_temperature.exp()
            if self.discrete:
                table = batch["next_table"]
                each = self._values(self.target_critics, batch["next_situation"]).amin(0)
                next_value = (table.exp() * (each - temperature * table)).sum(-1)
            else:
                each = self._values(self.target_critics, batch["next_situation"], batch["next_code"]).amin(0)
                next_value = each - temperature * batch["next_log_prob"]
            target = batch["reward"] + self.config.gamma * next_value.masked_fill(batch["terminated"], 0.0)
        if self.discrete:
            value = (self._values(self.critics, batch["situation"]) * batch["code"]).sum(-1)
        else:
            value = self._values(self.critics, batch["situation"], batch["code"])
        loss = masked_mean((value - target).square().sum(0), batch["valid"])
        norm = self.descent(self.optimizers["critic"], loss, self.config.max_grad_norm)
        value = masked_mean(value.detach().mean(0), batch["valid"])
        return {"critic_loss": loss.detach(), "critic_grad_norm": norm, "value": value}

    def _actor_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """One step of the policy towards the critics' values and its own entropy (eq. 9), one of the temperature."""
        c, valid, mask = self.config, batch["valid"], batch.get("mask")
        temperature = self.log_temperature.detach().exp()
        self.critics.requires_grad_(False)
        params = self.actor(batch["obs"])
        if isinstance(self.head, CategoricalHead):
            table = self.head.log_probs(params, mask)[..., 0, :]
            each = self._values(self.critics, batch["situation"]).amin(0)
            entropy, value = -(table.exp() * table).sum(-1), (table.exp() * each).sum(-1)
        else:
            code, log_prob = self.head.relaxed(params, self.generator)
            entropy, value = -log_prob, self._values(self.critics, batch["situation"], code).amin(0)
        loss = -masked_mean(value + temperature * entropy, valid)
        norm = self.descent(self.optimizers["actor"], loss, c.max_grad_norm)
        self.critics.requires_grad_(True)
        entropy = entropy.detach()
        if c.learn_temperature:
            missing = self._target_entropy(params, mask) - entropy
            self.descent(self.optimizers["temperature"], -self.log_temperature * masked_mean(missing, valid))
        found = {"actor_loss": loss.detach(), "actor_grad_norm": norm, "entropy": masked_mean(entropy, valid)}
        return found | {"temperature": temperature}

    def _target_entropy(self, params: Tensor, mask: Tensor | None) -> Tensor | float:
        """Entropy to aim at, for all rows or each."""
        if self.config.target_entropy is not None:
            return self.config.target_entropy
        if not self.discrete:
            return float(-self.head.code_width)
        legal = torch.ones_like(params) if mask is None else mask
        return self.config.target_share * legal.sum(-1).clamp(min=1).log()

    @staticmethod
    def _values(critics: nn.ModuleList, situation: Tensor, code: Tensor | None = None) -> Tensor:
        """Both critics' values, (2, B, n) of an action, or (2, B, n, choices) of all."""
        if code is None:
            return torch.stack([critic(situation) for critic in critics])
        judged = torch.cat([situation, code], -1)
        return torch.stack([critic(judged).squeeze(-1) for critic in critics])

    def policy(self) -> Policy:
        """A frozen copy of the actor with its normaliser."""
        return snapshot(self)

    def state_dict(self) -> State:
        """Networks, temperature, optimisers, generator, counter and the replay; call it between rollouts."""
        state = saved(self.net, self.optimizers, self.generator, steps=self.steps)
        return state | self.experience.replay.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError naming the first thing that does not fit."""
        self.steps = restore(state, self.net, self.optimizers, self.generator, "steps")["steps"]
        self.experience.replay.load_state_dict(state)
        self.rollout.clear()
        self.exploring.fill_(self.steps < self.config.learning_starts)
