"""Advantage actor-critic (A2C) for agents that share one policy, the synchronous form of Mnih et al. 2016.

Source: "Asynchronous Methods for Deep Reinforcement Learning", algorithm S3, with synchronous worlds in place of
asynchronous threads. Advantages are generalized; `gae_lambda = 1` gives the paper's n-step returns. Truncations are
bootstrapped from the true last observation. Unlike PPO, each rollout is used for one gradient step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gpu_envs.utils.settings import setting
from trainers.algorithms.on_policy.actor_critic import ActorCriticConfig
from trainers.algorithms.on_policy.actor_critic_learner import ActorCriticLearner
from trainers.algorithms.on_policy.advantages import explained_variance, forward_batch, minibatch
from trainers.base.gradients import linear_schedule
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam, make_rmsprop, set_learning_rate
from trainers.models.normalization import masked_mean
from warp_kernels.networks import losses

__all__ = ["A2C", "A2CConfig"]


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """Settings of A2C. A "step" is one step of one world, with all its agents."""

    rollout_length: int = setting(8, ge=1)
    """Steps per world between two updates."""
    optimizer: str = setting("rmsprop", choices=("rmsprop", "adam"))
    """Optimizer: "rmsprop", as in the paper, or "adam"."""
    learning_rate: float = setting(3e-3, gt=0)
    """Step size of the optimizer at the start. Lower it if training is unstable."""
    learning_rate_final: float = setting(0.0, ge=0)
    """Step size of the optimizer after `total_steps`, reached linearly."""
    gae_lambda: float = setting(1.0, ge=0, le=1)
    """Decay of the advantage estimator, in [0, 1]: 0 is one-step, 1 sums all rewards of the rollout."""
    entropy_coef: float = setting(0.01, ge=0)
    """Weight of the entropy bonus. Raise it for more exploration."""
    normalize_advantage: bool = False
    """Normalize the advantages of each rollout to mean 0 and standard deviation 1."""


class A2C(ActorCriticLearner):
    """Learner of A2C. The critic values a whole rollout in one batch, in `update`."""

    objective = losses.ADVANTAGE
    kernel_methods = ("act", "observe", "_learn", "_loss")

    def __init__(self, config: A2CConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        super().__init__(config, spec)
        self.config = config
        if config.optimizer == "adam":
            self.optimizer = make_adam(self.net.parameters(), config.learning_rate, spec.captured, eps=1e-5)
        else:
            self.optimizer = make_rmsprop(
                self.net.parameters(), config.learning_rate, spec.captured, alpha=0.99, eps=1e-5
            )
        self.optimizers: dict[str, torch.optim.Optimizer] = {config.optimizer: self.optimizer}

    def _schedule(self, progress: float) -> dict[str, float]:
        learning_rate = linear_schedule(self.config.learning_rate, self.config.learning_rate_final, progress)
        set_learning_rate(self.optimizer, learning_rate)
        return {"learning_rate": learning_rate}

    def _learn(self) -> dict[str, Tensor]:
        """Take one gradient step on the stored rollout and update the normalizers."""
        fixed_shapes = self.uses_fixed_shapes
        batch = self.engine.batch(self.reducer, fixed_shapes)
        sampler = self.reducer.minibatch_sampler(batch, self.rollout.length, self.rollout.rows_per_step, fixed_shapes)
        if sampler.num_decisions == 0:
            return {}
        self.engine.step(self.reducer, self._loss, [(None, sampler.divisor)], sampler.active, self._settings)
        self.engine.finish()
        metrics = dict(self.engine.totals())
        metrics["explained_variance"] = explained_variance(batch, self.reducer)
        self.agent.update_normalizer(batch, self.reducer.sum)
        return metrics

    @property
    def _settings(self) -> dict[str, Any]:
        """Settings of the loss by name; kernels read them, too."""
        return {"entropy_coef": self.config.entropy_coef, "value_coef": self.config.value_coef}

    def _loss(
        self, batch: dict[str, Tensor], rows: Tensor | None, divisor: Tensor | float | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of the whole rollout, and metrics; `divisor` as in `MinibatchSampler`."""
        settings, part = self._settings, minibatch(batch, rows, self.net.critic_input)
        valid = part.get("valid")
        params = forward_batch(self.actor, part["obs"], part, "actor")
        log_prob, entropy = self.head.evaluate(params, part["action"], part.get("mask"))
        value = forward_batch(self.critic, part["seen"], part, "critic").squeeze(-1)

        policy_loss = -masked_mean(log_prob * part["advantage"], valid, divisor)
        value_loss = 0.5 * masked_mean((value - part["returns"]).square(), valid, divisor)
        bonus = masked_mean(entropy, valid, divisor)
        loss = policy_loss + settings["value_coef"] * value_loss - settings["entropy_coef"] * bonus
        losses = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": bonus}
        return loss, {name: tensor.detach() for name, tensor in losses.items()}
