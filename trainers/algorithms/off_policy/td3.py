"""TD3 (Fujimoto et al. 2018) and DDPG (Lillicrap et al. 2016) for a group of agents that share one policy.

DDPG is TD3 without its three remedies: one critic instead of the smaller of two, no delay of the policy, no noise on
the target's actions. Truncations are bootstrapped from the true last observation.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
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
from trainers.heads import CategoricalHead, GaussianHead, action_spec, make_head
from trainers.learner import ALONE, Central, Descent, State, restore, saved
from trainers.nets import ObservationNormalizer, follow, masked_mean
from trainers.policy import Policy, snapshot
from trainers.problem import Problem
from trainers.rollout import Transition
from trainers.settings import setting
from trainers.streams import One, normal, of_shard, uniform


@dataclass(frozen=True)
class TD3Config(ReplayConfig):
    """Settings of TD3. Actions and the noise on them are measured in a box of [-1, 1]."""

    names = "td3 and ddpg"
    twin: bool = True
    """Learn two critics, and take the smaller value for targets."""
    policy_delay: int = setting(2, ">= 1")
    """Gradient steps of the critic per step of the policy and of the target networks."""
    target_noise: float = setting(0.2, ">= 0")
    """Standard deviation of the noise on the target's actions."""
    target_noise_clip: float = setting(0.5, ">= 0", needs={"target_noise": "> 0"})
    """Bound of that noise."""
    noise: float = setting(0.1, ">= 0")
    """Standard deviation of the exploration noise at the start; of discrete actions (MADDPG) the share that is drawn
    uniformly at random."""
    noise_end: float = setting(0.1, ">= 0")
    """The same after `total_steps`; linear in between."""


class TD3:
    """The learner. What its critics judge is an observation (`_look` says of what) beside an action's code."""

    central: Central = None
    descent: Descent = ALONE

    def __init__(self, config: TD3Config, problem: Problem) -> None:
        """Builds networks and buffers."""
        if self.central is None and not isinstance(problem.action_space, spaces.Box):
            raise ConfigError(f"{config.names} need continuous actions, got {problem.action_space}; use sac or dqn")
        self.config, self.total_steps = config, problem.total_steps
        self.steps, self.gradient_steps = 0, 0
        self.device = torch.device(problem.device)
        self.generator = torch.Generator(self.device).manual_seed(problem.seed)
        self.stream, self.num_envs_total = of_shard(self.generator, problem.shard), problem.num_envs_total
        weights = torch.Generator().manual_seed(problem.seed)
        action = action_spec(problem.action_space, box="tanh")
        head = make_head(action)
        assert not isinstance(head, GaussianHead)
        self.head, self.discrete = head, isinstance(head, CategoricalHead)
        self.spec = {**config.spec(problem.obs_width), "action": action}
        self.normalizer = ObservationNormalizer(problem.obs_width)
        self.actor = Network(self.spec, head.num_params, 0.01, weights)
        self.critics = self._make_critics(problem, weights)
        self.target_actor = copy.deepcopy(self.actor).requires_grad_(False)
        self.target_critics = copy.deepcopy(self.critics).requires_grad_(False)
        parts = {"normalizer": self.normalizer, "head": head, "actor": self.actor, "critics": self.critics}
        parts |= {"target_actor": self.target_actor, "target_critics": self.target_critics}
        self.net = nn.ModuleDict(parts).to(self.device)
        learned = {"actor": self.actor, "critic": self.critics}
        self.optimizers = {name: adam(net.parameters(), config) for name, net in learned.items()}
        self.experience = self._make_experience(problem)
        self.rollout = self.experience.rollout
        # on the device, and changed between rollouts only: a rollout can be captured as a CUDA graph
        self.exploring = torch.zeros((), dtype=torch.bool, device=self.device)
        self.noise = torch.zeros((), device=self.device)
        self._schedule()

    def _make_critics(self, problem: Problem, weights: torch.Generator) -> nn.ModuleList:
        spec = self.config.spec(problem.obs_width + self.head.code_width)
        return nn.ModuleList([Network(spec, 1, 1.0, weights) for _ in range(1 + self.config.twin)])

    def _make_experience(self, problem: Problem) -> Experience:
        return Experience(self.config, problem, self.head)

    def _values(self, critics: nn.ModuleList, situation: Tensor, code: Tensor) -> Tensor:
        """Values (C, B, n) of actions in situations."""
        return values_of(critics, situation, code)

    def _schedule(self) -> None:
        c, progress = self.config, min(self.steps / self.total_steps, 1.0)
        self.exploring.fill_(self.steps < c.learning_starts)
        self.noise.fill_(c.noise + progress * (c.noise_end - c.noise))

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Actions with noise, or uniformly random ones at first; arguments and shapes as `Learner.act`."""
        obs, mask = self.rollout.begin(obs, mask, to_move, state)
        params = self.actor(self.normalizer(obs))
        code = self._noisy(self.head.relaxed(params, self.stream, mask)[0], self.noise, None, self.stream)
        at_random = self.exploring
        if self.discrete:
            at_random = at_random | (uniform(obs[..., :1], self.stream) < self.noise)
        code = torch.where(at_random, self.head.random(params, self.stream, mask), code)
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
                found.append(self._critic_step(batch))
                self.gradient_steps += 1
                if self.gradient_steps % c.policy_delay == 0:
                    found.append(self._actor_step(batch))
                    follow(self.target_actor, self.actor, c.tau)
                    follow(self.target_critics, self.critics, c.tau)
        metrics = means(found) | ({"noise": self.noise.clone()} if found else {})
        self._schedule()
        return metrics

    def _normalize(self) -> None:
        """Takes the rollout's observations into the statistics."""
        rollout = self.rollout
        self.normalizer.update(rollout.obs, rollout.valid, self.descent.sum)

    @torch.no_grad()
    def _look(self, drawn: dict[str, Tensor]) -> dict[str, Tensor]:
        """What networks need of drawn steps, (B, n, ...) by name.

        obs, mask: What the actor sees. situation, next_situation: What the critics see beside an action. code,
        next_code: The action taken and the target's next one. reward, terminated, valid, which: As drawn.
        """
        obs = self.normalizer(drawn["obs"])
        look = {name: drawn[name] for name in AS_DRAWN if name in drawn}
        look |= {"obs": obs, "situation": obs, "code": self.head.encode(drawn["action"])}
        look["next_situation"] = self.normalizer(drawn["next_obs"])
        look["next_code"] = self.answer(drawn["next_obs"], self.experience.stream(self.generator, drawn))[0]
        return look

    @torch.no_grad()
    def answer(self, obs: Tensor, stream: One, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (B, n, code_width) of the target policy's actions, with noise, and entropies (B, n), not used here."""
        c = self.config
        code, log_prob = self.head.relaxed(self.target_actor(self.normalizer(obs)), stream, mask)
        return self._noisy(code, c.target_noise, c.target_noise_clip, stream), -log_prob

    def _noisy(self, code: Tensor, scale: Tensor | float, clip: float | None, stream: One) -> Tensor:
        """Adds noise to continuous actions; discrete ones are drawn at random anyway."""
        if self.discrete:
            return code
        noise = scale * normal(code, stream)
        return (code + (noise if clip is None else noise.clamp(-clip, clip))).clamp(-1.0, 1.0)

    def _critic_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """One step on the squared distance to the target, the smaller of the target critics' values (eq. 10)."""
        with torch.no_grad():
            next_value = self._values(self.target_critics, batch["next_situation"], batch["next_code"]).amin(0)
            target = batch["reward"] + self.config.gamma * next_value.masked_fill(batch["terminated"], 0.0)
        values = self._values(self.critics, batch["situation"], batch["code"])
        return correct(values, target, batch["valid"], self.descent, self.optimizers["critic"], self.config)

    def _actor_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """One step up the first critic's value of the policy's own action."""
        self.critics.requires_grad_(False)
        params = self.actor(batch["obs"])
        code, _ = self.head.relaxed(params, self.experience.stream(self.generator, batch), batch.get("mask"))
        value = self._values(self.critics[:1], batch["situation"], code)[0]
        valid = batch["valid"]
        loss = masked_mean(self._penalty(params) - value, valid, self.descent.count(valid))
        norm = self.descent(self.optimizers["actor"], loss, self.config.max_grad_norm)
        self.critics.requires_grad_(True)
        return {"actor_loss": loss.detach(), "actor_grad_norm": norm}

    def _penalty(self, params: Tensor) -> Tensor:
        """What a policy's outputs (B, n, ...) cost by themselves, (B, n)."""
        return torch.zeros_like(params[..., 0])

    def policy(self) -> Policy:
        """A frozen copy of the actor with its normaliser; it plays without noise."""
        return snapshot(self)

    def state_dict(self) -> State:
        """Networks, optimisers, generator, counters and the replay; call it between rollouts."""
        counters = {"steps": self.steps, "gradient_steps": self.gradient_steps}
        return saved(self.net, self.optimizers, self.generator, **counters) | self.experience.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError naming the first thing that does not fit."""
        counters = restore(state, self.net, self.optimizers, self.generator, "steps", "gradient_steps")
        self.steps, self.gradient_steps = counters["steps"], counters["gradient_steps"]
        self.experience.load_state_dict(state)
        self._schedule()
