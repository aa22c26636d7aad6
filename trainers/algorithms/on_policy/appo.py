"""APPO: PPO's clipped objective with V-trace returns and a target network, for steps sampled with older weights.

Source: RLlib's APPO, which follows Luo et al. 2020, "IMPACT: Importance Weighted Asynchronous Architectures with
Clipped Target Networks". V-trace values the target policy, and the clipped ratio is that of the present to the target
policy. With equal target and present policies and steps sampled by them, an update is one of PPO with V-trace returns.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gpu_envs.utils.settings import setting
from trainers.algorithms.on_policy.actor_critic import VTraceConfig
from trainers.algorithms.on_policy.advantages import ReferencePolicy
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec


@dataclass(frozen=True)
class APPOConfig(PPOConfig, VTraceConfig):
    """Settings of APPO. A "step" is one step of one world, with all its agents."""

    target_interval: int = setting(1, ge=1)
    """Updates between two moves of the target policy. Raise it if policies change too fast."""
    target_tau: float = setting(1.0, gt=0, le=1)
    """Share of the way that the target policy moves towards the present one, in (0, 1]; 1 copies it."""


class APPO(PPO):
    """Learner of APPO: PPO on batches in which the target policy takes the place of the one that sampled."""

    def __init__(self, config: APPOConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        super().__init__(config, spec)
        self.target_interval: int = config.target_interval
        self.target_tau: float = config.target_tau
        self.target: ReferencePolicy = ReferencePolicy.copy(self.net)
        self.valued = self.target
        self.net.target = nn.ModuleDict(self.target._asdict())  # part of checkpoints, not of the optimizer

    def update(self) -> dict[str, Tensor]:
        """Learn from the stored rollout, then move the target policy at its interval."""
        start = self.steps
        metrics = super().update()
        if self.steps // (self.steps - start) % self.target_interval == 0:
            self.target.follow(self.net, self.target_tau)
        return metrics
