"""Magnetic mirror descent (MMD, Sokota et al. 2023): PPO whose policy stays near the old one and near a magnet.

Source: "A Unified Approach to Reinforcement Learning, Quantal Response Equilibria, and Two-Player Zero-Sum Games",
arXiv 2206.05825. Without function approximation an update is

    pi_next = argmax_pi E_pi[A] - alpha KL(pi || magnet) - KL(pi || pi_old) / eta,

whose solution is proportional to (pi_old * magnet^(alpha eta) * exp(eta A))^(1 / (1 + alpha eta)). With exact updates,
a small enough eta and a magnet that rests, self-play converges to a quantal response equilibrium. A magnet that follows
the policy approached Nash equilibria in the source's experiments. Here the gradient steps of PPO approximate the
update, with its clipped ratio.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gpu_envs.utils.settings import setting
from trainers.algorithms.on_policy.advantages import ReferencePolicy
from trainers.algorithms.on_policy.objective import Minibatch
from trainers.algorithms.on_policy.ppo import PPO, ClippedObjective, PPOConfig
from trainers.base.learner_spec import LearnerSpec


@dataclass(frozen=True)
class MMDConfig(PPOConfig):
    """Settings of MMD. A "step" is one step of one world, with all its agents."""

    kl_coef: float = setting(0.1, ge=0)
    """Weight of the KL divergence to the old policy, 1 / eta in the source. Raise it for smaller steps."""
    magnet_coef: float = setting(0.2, ge=0)
    """Weight of the KL divergence to the magnet at the start, alpha in the source. Raise it if policies cycle."""
    magnet_coef_final: float = setting(0.05, ge=0)
    """Weight of the KL divergence to the magnet after `total_steps`, reached along `schedule`."""
    magnet_tau: float = setting(0.02, ge=0, le=1)
    """Share of the way that the magnet's weights move towards those of the policy after an update, in [0, 1].
    0: the magnet keeps the initial weights, whose policy is almost uniform. It sees observations as they are normalized
    now, and with a GRU it starts from the hidden states of the present policy."""
    entropy_coef: float = setting(0.0, ge=0)
    """Weight of the entropy bonus at the start: a pull to the uniform policy, beside that to the magnet."""
    entropy_coef_final: float = setting(0.0, ge=0)
    """Weight of the entropy bonus after `total_steps`, reached along `schedule`."""


class MagneticObjective(ClippedObjective):
    """PPO's objective with the divergences to the old policy and to the magnet."""

    settings = (*ClippedObjective.settings, "kl_coef", "magnet_coef")

    def loss(self, batch: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a minibatch and metrics, see `Objective.loss`."""
        loss, metrics = super().loss(batch)
        old, magnet = batch.mean(batch.kl["old"]), batch.mean(batch.kl["magnet"])
        loss = loss + batch.settings["kl_coef"] * old + batch.settings["magnet_coef"] * magnet
        return loss, metrics | {"old_kl": old, "magnet_kl": magnet}


class MMD(PPO):
    """Learner of MMD."""

    objective = MagneticObjective()

    def __init__(self, config: MMDConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers; the initial policy is the magnet."""
        super().__init__(config, spec)
        self.magnet_tau: float = config.magnet_tau
        self.magnet_coef: Tensor = torch.full((), config.magnet_coef, device=self.device)
        self.references = {name: ReferencePolicy.copy(self.net) for name in ("old", "magnet")}
        self.net.magnet = nn.ModuleDict(self.references["magnet"]._asdict())  # part of checkpoints

    def _schedule(self, progress: float) -> dict[str, float]:
        c = self.config
        magnet_coef = self.scheduled(c.magnet_coef, c.magnet_coef_final, progress)
        self.magnet_coef.fill_(magnet_coef)
        return super()._schedule(progress) | {"magnet_coef": magnet_coef}

    def _learn(self) -> dict[str, Tensor]:
        self.references["old"].follow(self.net, 1.0)
        return super()._learn()

    def update(self) -> dict[str, Tensor]:
        """Learn from the stored rollout, then let the magnet follow."""
        metrics = super().update()
        self.references["magnet"].follow(self.net, self.magnet_tau)
        return metrics
