"""MADDPG (Lowe et al. 2017): DDPG with critics of all agents' observations and actions, and decentralized policies.

Discrete actions are sampled by straight-through Gumbel-softmax. With TD3's remedies it is MATD3 (Ackermann et al.
2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gpu_envs.utils.settings import setting
from trainers.algorithms.learner import CentralInput
from trainers.algorithms.off_policy.centralized_critic import (
    JointCritic,
    JointObservation,
    JointReplayStore,
    TargetActionProvider,
    joint_values,
)
from trainers.algorithms.off_policy.td3 import TD3, TD3Config
from trainers.base.learner_spec import LearnerSpec
from trainers.models.normalization import ObservationNormalizer

__all__ = ["MADDPG", "MADDPGConfig"]


@dataclass(frozen=True)
class MADDPGConfig(TD3Config):
    """Settings of MADDPG: TD3's and a logit penalty."""

    names = "maddpg and matd3"  # see ReplayConfig
    logit_penalty: float = setting(1e-3, ge=0)
    """Weight of the mean square of the logits in the loss of a discrete policy.
    It prevents a deterministic policy early in training. The default comes from Lowe et al.'s code."""


class MADDPG(TD3):
    """Learner of MADDPG. Agents that share a policy share a critic, which gets the agent's index."""

    central_input: CentralInput = "joint"
    config: MADDPGConfig
    """Settings of the learner."""
    experience: JointReplayStore
    """Rollout of the learner, and the replay shared by all learners."""

    def __init__(self, config: MADDPGConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers; call `set_co_learners` before training."""
        self.view: JointObservation = JointObservation(spec)
        super().__init__(config, spec)
        self.state_normalizer: ObservationNormalizer = ObservationNormalizer(spec.state_width).to(self.device)
        self.net["state_normalizer"] = self.state_normalizer

    def set_co_learners(self, learners: Mapping[str, TargetActionProvider]) -> None:
        """Store all learners by policy, including this one; critic targets query their target policies."""
        self.experience.set_co_learners(learners)

    def _penalty(self, params: Tensor) -> Tensor:
        return self.config.logit_penalty * self.discrete * params.square().mean(-1)

    def _make_critics(self, spec: LearnerSpec, weights: torch.Generator) -> nn.ModuleList:
        code_width, count = self.head.code_width, 1 + self.config.twin
        return nn.ModuleList([JointCritic(self.config, self.view, code_width, 1, weights) for _ in range(count)])

    def _make_experience(self, spec: LearnerSpec) -> JointReplayStore:
        return JointReplayStore(self.config, spec, self.head, self.view)

    def _values(self, critics: nn.ModuleList, situation: Tensor, code: Tensor) -> Tensor:
        return joint_values(critics, situation, code)

    def _normalize(self) -> None:
        super()._normalize()
        rollout = self.rollout
        assert rollout.state is not None
        self.state_normalizer.update(rollout.state[:-1], rollout.valid.any(-1), self.reducer.sum)

    @torch.no_grad()
    def _prepare_batch(self, sampled: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the network inputs as `TD3._prepare_batch`; situations (B, ...) hold all observations and actions."""
        return self.view.prepare_batch(
            sampled, self.normalizer, self.state_normalizer, self.experience.stream(self.generator, sampled)
        )
