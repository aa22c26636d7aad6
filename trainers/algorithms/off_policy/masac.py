"""MASAC: soft actor-critic with critics of all agents' observations and actions, and decentralized policies.

Sources: Haarnoja et al. (2018) for the actor and its temperature, Lowe et al. (2017) for critics of all agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainers.algorithms.learner import CentralInput
from trainers.algorithms.off_policy.centralized_critic import (
    JointCritic,
    JointObservation,
    JointReplayStore,
    TargetActionProvider,
    joint_values,
)
from trainers.algorithms.off_policy.sac import SAC, SACConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.base.random_streams import SingleStream
from trainers.models.normalization import ObservationNormalizer

__all__ = ["MASAC", "MASACConfig"]


@dataclass(frozen=True)
class MASACConfig(SACConfig):
    """Settings of MASAC, the same as SAC's."""

    names = "masac"


class MASAC(SAC):
    """Learner of MASAC. Agents that share a policy share critics, which get the agent's index."""

    central_input: CentralInput = "joint"
    experience: JointReplayStore
    """Rollout of the learner, and the replay shared by all learners."""

    def __init__(self, config: MASACConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers; call `set_co_learners` before training."""
        self.view: JointObservation = JointObservation(spec)
        super().__init__(config, spec)
        self.state_normalizer: ObservationNormalizer = ObservationNormalizer(spec.state_width).to(self.device)
        self.net["state_normalizer"] = self.state_normalizer

    def set_co_learners(self, learners: Mapping[str, TargetActionProvider]) -> None:
        """Store all learners by policy, including this one; critic targets query their policies."""
        self.experience.set_co_learners(learners)

    def _make_critic(self, spec: LearnerSpec, code_width: int, values: int, weights: torch.Generator) -> JointCritic:
        return JointCritic(self.config, self.view, code_width, values, weights)

    def _make_experience(self, spec: LearnerSpec) -> JointReplayStore:
        return JointReplayStore(self.config, spec, self.head, self.view)

    def _values(self, critics: nn.ModuleList, situation: Tensor, code: Tensor | None = None) -> Tensor:
        return joint_values(critics, situation, code)

    def _normalize(self) -> None:
        super()._normalize()
        rollout = self.rollout
        assert rollout.state is not None
        self.state_normalizer.update(rollout.state[:-1], rollout.valid.any(-1), self.reducer.sum)

    @torch.no_grad()
    def target_actions(self, obs: Tensor, stream: SingleStream, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return codes (B, n, code_width) of the policy's actions on observations (B, n, D), and entropies (B, n)."""
        return self._draw(self.actor(self.normalizer(obs)), stream, mask)

    @torch.no_grad()
    def _prepare_batch(self, sampled: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the network inputs as `SAC._prepare_batch`; situations (B, ...) hold all observations and actions."""
        view, stream = self.view, self.experience.stream(self.generator, sampled)
        inputs = view.prepare_batch(sampled, self.normalizer, self.state_normalizer, stream)
        if not self.values_all_choices:
            return inputs
        next_obs = view.obs(sampled["next_state"], view.policy)
        next_mask = view.mask(sampled.get("next_mask"), view.policy)
        return inputs | self._next(self.normalizer(next_obs), stream, next_mask)
