"""MADDPG (Lowe et al. 2017): DDPG with critics of all agents' observations and actions, and decentralized policies.

Discrete actions are sampled by straight-through Gumbel-softmax. With TD3's remedies it is MATD3 (Ackermann et al.
2019).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gpu_envs.utils.settings import setting
from trainers.algorithms.off_policy.centralized_critic import JointCriticLearner
from trainers.algorithms.off_policy.td3 import TD3, TD3Config


@dataclass(frozen=True)
class MADDPGConfig(TD3Config):
    """Settings of MADDPG: TD3's and a logit penalty."""

    names = "maddpg and matd3"  # see CriticConfig
    logit_penalty: float = setting(1e-3, ge=0)
    """Weight of the mean square of the logits in the loss of a discrete policy.
    It prevents a deterministic policy early in training. The default comes from Lowe et al.'s code."""


class MADDPG(JointCriticLearner, TD3):
    """Learner of MADDPG."""

    config: MADDPGConfig
    """Settings of the learner."""

    def _penalty(self, params: Tensor) -> Tensor:
        return self.config.logit_penalty * self.discrete * params.square().mean(-1)
