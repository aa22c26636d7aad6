"""MASAC: soft actor-critic with critics of all agents' observations and actions, and decentralized policies.

Sources: Haarnoja et al. (2018) for the actor and its temperature, Lowe et al. (2017) for critics of all agents.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.algorithms.off_policy.centralized_critic import JointCriticLearner
from trainers.algorithms.off_policy.sac import SAC, SACConfig


@dataclass(frozen=True)
class MASACConfig(SACConfig):
    """Settings of MASAC, the same as SAC's."""

    names = "masac"


class MASAC(JointCriticLearner, SAC):
    """Learner of MASAC."""

    @torch.no_grad()
    def _prepare_batch(self, sampled: dict[str, Tensor]) -> dict[str, Tensor]:
        inputs, view = super()._prepare_batch(sampled), self.view
        if not self.values_all_choices:
            return inputs
        next_obs = view.obs(sampled["next_state"], view.policy)
        next_mask = view.mask(sampled.get("next_mask"), view.policy)
        return inputs | self._next(self.normalizer(next_obs), self._noise_stream(sampled), next_mask)
