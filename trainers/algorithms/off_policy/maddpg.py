"""MADDPG (Lowe et al. 2017): DDPG whose critics see all agents' observations and actions, while policies see their own.

Discrete actions are drawn by Gumbel-softmax, straight-through. With TD3's remedies switched on it is MATD3 (Ackermann
et al. 2019).
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
from trainers.settings import setting
from trainers.td3 import TD3, TD3Config


@dataclass(frozen=True)
class MADDPGConfig(TD3Config):
    """Settings of MADDPG, those of TD3 and one more."""

    names = "maddpg and matd3"  # see ReplayConfig
    logit_penalty: float = setting(1e-3, ">= 0")
    """Weight of the mean square of a discrete policy's logits in its loss, which keeps it from becoming certain too
    soon; the default is that of Lowe et al.'s code."""


class MADDPG(TD3):
    """The learner. Agents that share a policy share a critic, which is told which of them it judges."""

    central: Central = "joint"
    config: MADDPGConfig
    """Its settings."""
    experience: JointExperience
    """Its rollout, and the replay that all learners share."""

    def __init__(self, config: MADDPGConfig, problem: Problem) -> None:
        """Builds networks and buffers; before it acts it has to `meet` the others."""
        self.view = JointView(problem)
        super().__init__(config, problem)
        self.state_normalizer = ObservationNormalizer(problem.state_width).to(self.device)
        self.net["state_normalizer"] = self.state_normalizer

    def meet(self, learners: Mapping[str, Answers]) -> None:
        """Takes note of all learners by policy, itself among them, whose target policies targets depend on."""
        self.experience.meet(learners)

    def _penalty(self, params: Tensor) -> Tensor:
        return self.config.logit_penalty * self.discrete * params.square().mean(-1)

    def _make_critics(self, problem: Problem, weights: torch.Generator) -> nn.ModuleList:
        own, count = self.head.code_width, 1 + self.config.twin
        return nn.ModuleList([JointCritic(self.config, self.view, own, 1, weights) for _ in range(count)])

    def _make_experience(self, problem: Problem) -> JointExperience:
        return JointExperience(self.config, problem, self.head, self.view)

    def _values(self, critics: nn.ModuleList, situation: Tensor, code: Tensor) -> Tensor:
        return joint_values(critics, situation, code)

    def _normalize(self) -> None:
        super()._normalize()
        rollout = self.rollout
        assert rollout.state is not None
        self.state_normalizer.update(rollout.state[:-1], rollout.valid.any(-1), self.descent.sum)

    @torch.no_grad()
    def _look(self, drawn: dict[str, Tensor]) -> dict[str, Tensor]:
        """As `TD3._look`; a situation, (B, ...) for all agents, is what all see and do."""
        return self.view.look(
            drawn, self.normalizer, self.state_normalizer, self.experience.stream(self.generator, drawn)
        )
