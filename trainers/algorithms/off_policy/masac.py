"""MASAC: soft actor-critic whose critics see all agents' observations and actions, while policies see their own.

Sources: Haarnoja et al. (2018) for the actor and its temperature, Lowe et al. (2017) for critics of all agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainers.joint import Answers, JointCritic, JointExperience, JointView, joint_values
from trainers.learner import Central
from trainers.nets import ObservationNormalizer
from trainers.problem import Problem
from trainers.sac import SAC, SACConfig
from trainers.streams import One


@dataclass(frozen=True)
class MASACConfig(SACConfig):
    """Settings of MASAC, those of SAC."""

    names = "masac"


class MASAC(SAC):
    """The learner. Agents that share a policy share critics, which are told which of them they judge."""

    central: Central = "joint"
    experience: JointExperience
    """Its rollout, and the replay that all learners share."""

    def __init__(self, config: MASACConfig, problem: Problem) -> None:
        """Builds networks and buffers; before it learns it has to `meet` the others."""
        self.view = JointView(problem)
        super().__init__(config, problem)
        self.state_normalizer = ObservationNormalizer(problem.state_width).to(self.device)
        self.net["state_normalizer"] = self.state_normalizer

    def meet(self, learners: Mapping[str, Answers]) -> None:
        """Takes note of all learners by policy, itself among them, whose policies targets depend on."""
        self.experience.meet(learners)

    def _make_critic(self, problem: Problem, judged: int, values: int, weights: torch.Generator) -> JointCritic:
        return JointCritic(self.config, self.view, judged, values, weights)

    def _make_experience(self, problem: Problem) -> JointExperience:
        return JointExperience(self.config, problem, self.head, self.view)

    def _values(self, critics: nn.ModuleList, situation: Tensor, code: Tensor | None = None) -> Tensor:
        return joint_values(critics, situation, code)

    def _normalize(self) -> None:
        super()._normalize()
        rollout = self.rollout
        assert rollout.state is not None
        self.state_normalizer.update(rollout.state[:-1], rollout.valid.any(-1), self.descent.sum)

    @torch.no_grad()
    def answer(self, obs: Tensor, stream: One, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (B, n, code_width) of what the policy does on seeing (B, n, D), and its entropies (B, n)."""
        return self._draw(self.actor(self.normalizer(obs)), stream, mask)

    @torch.no_grad()
    def _look(self, drawn: dict[str, Tensor]) -> dict[str, Tensor]:
        """As `SAC._look`; a situation, (B, ...) for all agents, is what all see and do."""
        view, stream = self.view, self.experience.stream(self.generator, drawn)
        look = view.look(drawn, self.normalizer, self.state_normalizer, stream)
        if not self.every:
            return look
        next_obs, next_mask = view.obs(drawn["next_state"], view.policy), view.mask(drawn.get("next_mask"), view.policy)
        return look | self._next(self.normalizer(next_obs), stream, next_mask)
