"""IMPALA (Espeholt et al. 2018): an actor-critic whose returns V-trace corrects for the age of the sampling weights.

Source: "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures". Each rollout is
used for one gradient step, as in A2C. In a synchronous training the weights that sample are the present ones; then all
ratios are 1, and V-trace returns are n-step returns.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_envs.utils.settings import setting
from trainers.algorithms.on_policy.a2c import A2C, A2CConfig
from trainers.algorithms.on_policy.actor_critic import VTraceConfig
from trainers.algorithms.on_policy.advantages import ReferencePolicy
from trainers.base.learner_spec import LearnerSpec


@dataclass(frozen=True)
class IMPALAConfig(A2CConfig, VTraceConfig):
    """Settings of IMPALA. A "step" is one step of one world, with all its agents."""

    rollout_length: int = setting(16, ge=1)
    """Steps per world between two updates."""


class IMPALA(A2C):
    """Learner of IMPALA. V-trace estimates the advantages of A2C's loss, for the present policy."""

    def __init__(self, config: IMPALAConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        super().__init__(config, spec)
        self.valued: ReferencePolicy | None = ReferencePolicy(self.actor, self.head)
