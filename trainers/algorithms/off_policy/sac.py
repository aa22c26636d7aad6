"""Soft actor-critic (Haarnoja et al. 2018) for a group of agents that share one policy, with a learned temperature.

Continuous actions are tanh-Gaussian. With discrete ones (Christodoulou 2019) critics give the value of every choice at
once, and expectations over the policy are exact. Multi-discrete actions are independent categoricals, whose joint
choices are too many for that: critics judge the one-hot codes of one choice of all components, in which components can
depend on each other (values that add up over components, as in Tavakoli et al. 2018, could not say so), and the policy
follows them by straight-through Gumbel-softmax (Jang et al. 2017), as MADDPG does; its entropy, the sum of its
components', is exact. Truncations are bootstrapped from the true last observation.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainers.bodies import Network
from trainers.experience import (
    AS_DRAWN,
    Experience,
    ReplayConfig,
    adam,
    correct,
    means,
    values_of,
)
from trainers.heads import CategoricalHead, TanhGaussianHead, action_spec, make_head
from trainers.learner import ALONE, Central, Descent, State, restore, saved
from trainers.nets import ObservationNormalizer, follow, masked_mean
from trainers.policy import Policy, snapshot
from trainers.problem import Problem
from trainers.rollout import Transition
from trainers.settings import setting
from trainers.streams import One, of_shard


@dataclass(frozen=True)
class SACConfig(ReplayConfig):
    """Settings of SAC. Entropies are in nats, those of continuous actions in a box of [-1, 1]."""

    names = "sac"
    temperature: float = setting(0.2, "> 0")
    """Weight of the entropy at the start."""
    learn_temperature: bool = True
    """Change it so that the policy's entropy comes to the target."""
    target_entropy: float | None = setting(None, needs={"learn_temperature": True})
    """Entropy that the temperature aims at; None: -K for K continuous dimensions, and for discrete actions
    `target_share` of the entropy of a uniform choice among the legal ones."""
    target_share: float = setting(0.5, "in [0, 1]", needs={"learn_temperature": True, "target_entropy": None})
    """See `target_entropy`; Christodoulou 2019 takes 0.98, a policy that stays close to uniform."""


class SAC:
    """The learner. What its critics judge is an observation (`_look` says of what) and an action's code."""

    central: Central = None
    descent: Descent = ALONE

    def __init__(self, config: SACConfig, problem: Problem) -> None:
        """Builds networks and buffers."""
        self.config, self.steps = config, 0
        self.device = torch.device(problem.device)
        self.generator = torch.Generator(self.device).manual_seed(problem.seed)
        self.stream, self.num_envs_total = of_shard(self.generator, problem.shard), problem.num_envs_total
        weights = torch.Generator().manual_seed(problem.seed)
        action = action_spec(problem.action_space, box="tanh_gaussian")
        head = make_head(action)
        assert isinstance(head, CategoricalHead | TanhGaussianHead)
        self.head, self.discrete = head, isinstance(head, CategoricalHead)
        self.every = isinstance(head, CategoricalHead) and not head.multi  # critics value every choice at once
        self.spec = {**config.spec(problem.obs_width), "action": action}
        self.normalizer = ObservationNormalizer(problem.obs_width)
        self.actor = Network(self.spec, head.num_params, 0.01, weights)
        judged, values = (0, head.code_width) if self.every else (head.code_width, 1)
        self.critics = nn.ModuleList([self._make_critic(problem, judged, values, weights) for _ in range(2)])
        self.target_critics = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(config.temperature)))
        parts = {"normalizer": self.normalizer, "head": head, "actor": self.actor, "critics": self.critics}
        self.net = nn.ModuleDict({**parts, "target_critics": self.target_critics})
        self.net.register_parameter("log_temperature", self.log_temperature)
        self.net.to(self.device)
        learned = {"actor": self.actor.parameters(), "critic": self.critics.parameters()}
        learned["temperature"] = iter([self.log_temperature])
        self.optimizers = {name: adam(parameters, config) for name, parameters in learned.items()}
        self.experience = self._make_experience(problem)
        self.rollout = self.experience.rollout
        # on the device, and changed between rollouts only: a rollout can be captured as a CUDA graph
        self.exploring = torch.full((), config.learning_starts > 0, device=self.device)

    def _make_critic(self, problem: Problem, judged: int, values: int, weights: torch.Generator) -> Network:
        """A critic that judges codes of a width, in situations, by so many values."""
        return Network(self.config.spec(problem.obs_width + judged), values, 1.0, weights)

    def _make_experience(self, problem: Problem) -> Experience:
        return Experience(self.config, problem, self.head)

    def _values(self, critics: nn.ModuleList, situation: Tensor, code: Tensor | None = None) -> Tensor:
        """Both critics' values, (2, B, n) of an action, or (2, B, n, choices) of all."""
        return values_of(critics, situation, code)

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
        code = self.head.relaxed(params, self.stream, mask)[0]
        code = torch.where(self.exploring, self.head.random(params, self.stream, mask), code)
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
        self.steps += rollout.length * self.num_envs_total
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
        action taken. next_code, next_entropy: The policy's next one, and its entropy; next_table: Log-probabilities of
        all choices, where critics value every one. reward, terminated, valid, which: As drawn.
        """
        look = {name: drawn[name] for name in (*AS_DRAWN, "mask") if name in drawn}
        obs, next_obs = self.normalizer(drawn["obs"]), self.normalizer(drawn["next_obs"])
        look |= {"obs": obs, "situation": obs, "next_situation": next_obs}
        look["code"] = self.head.encode(drawn["action"])
        return look | self._next(next_obs, self.experience.stream(self.generator, drawn), drawn.get("next_mask"))

    def _next(self, next_obs: Tensor, stream: One, next_mask: Tensor | None = None) -> dict[str, Tensor]:
        """What the policy does on normalised observations (B, n, D), see `_look`."""
        params = self.actor(next_obs)
        if self.every:
            return {"next_table": self._table(params, next_mask)[..., 0, :]}
        code, entropy = self._draw(params, stream, next_mask)
        return {"next_code": code, "next_entropy": entropy}

    def _table(self, params: Tensor, mask: Tensor | None) -> Tensor:
        """Log-probabilities (B, n, K, choices) of discrete actions."""
        assert isinstance(self.head, CategoricalHead)
        return self.head.log_probs(params, mask)

    def _draw(self, params: Tensor, stream: One, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Codes that gradients flow through, and entropies (B, n): exact of discrete actions, else of the code's."""
        code, log_prob = self.head.relaxed(params, stream, mask)
        return code, entropy_of(self._table(params, mask)) if self.discrete else -log_prob

    def _critic_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """One step on the squared distance to the soft target (eq. 5), by the smaller of the target critics' values."""
        with torch.no_grad():
            temperature = self.log_temperature.exp()
            if self.every:
                table = batch["next_table"]
                each = self._values(self.target_critics, batch["next_situation"]).amin(0)
                next_value = (table.exp() * (each - temperature * table)).sum(-1)
            else:
                each = self._values(self.target_critics, batch["next_situation"], batch["next_code"]).amin(0)
                next_value = each + temperature * batch["next_entropy"]
            target = batch["reward"] + self.config.gamma * next_value.masked_fill(batch["terminated"], 0.0)
        if self.every:
            values = (self._values(self.critics, batch["situation"]) * batch["code"]).sum(-1)
        else:
            values = self._values(self.critics, batch["situation"], batch["code"])
        return correct(values, target, batch["valid"], self.descent, self.optimizers["critic"], self.config)

    def _actor_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """One step of the policy towards the critics' values and its own entropy (eq. 9), one of the temperature."""
        c, valid, mask = self.config, batch["valid"], batch.get("mask")
        count = self.descent.count(valid)
        temperature = self.log_temperature.detach().exp()
        self.critics.requires_grad_(False)
        params = self.actor(batch["obs"])
        if self.every:
            table, each = self._table(params, mask), self._values(self.critics, batch["situation"]).amin(0)
            entropy, value = entropy_of(table), (table[..., 0, :].exp() * each).sum(-1)
        else:
            code, entropy = self._draw(params, self.experience.stream(self.generator, batch), mask)
            value = self._values(self.critics, batch["situation"], code).amin(0)
        loss = -masked_mean(value + temperature * entropy, valid, count)
        norm = self.descent(self.optimizers["actor"], loss, c.max_grad_norm)
        self.critics.requires_grad_(True)
        entropy = entropy.detach()
        if c.learn_temperature:
            missing = self._target_entropy(params, mask) - entropy
            self.descent(self.optimizers["temperature"], -self.log_temperature * masked_mean(missing, valid, count))
        found = {"actor_loss": loss.detach(), "actor_grad_norm": norm, "entropy": masked_mean(entropy, valid, count)}
        return found | {"temperature": temperature}

    def _target_entropy(self, params: Tensor, mask: Tensor | None) -> Tensor | float:
        """Entropy to aim at, for all rows or each."""
        if self.config.target_entropy is not None:
            return self.config.target_entropy
        if not self.discrete:
            return float(-self.head.code_width)
        return self.config.target_share * entropy_of(self._table(torch.zeros_like(params), mask))

    def policy(self) -> Policy:
        """A frozen copy of the actor with its normaliser."""
        return snapshot(self)

    def state_dict(self) -> State:
        """Networks, temperature, optimisers, generator, counter and the replay; call it between rollouts."""
        state = saved(self.net, self.optimizers, self.generator, steps=self.steps)
        return state | self.experience.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError naming the first thing that does not fit."""
        self.steps = restore(state, self.net, self.optimizers, self.generator, "steps")["steps"]
        self.experience.load_state_dict(state)
        self.exploring.fill_(self.steps < self.config.learning_starts)


def entropy_of(table: Tensor) -> Tensor:
    """Entropies (...) of independent categoricals by their log-probabilities (..., K, choices)."""
    return -(table.exp() * table).sum((-1, -2))
