"""Advantage actor-critic (A2C) for agents that share one policy, the synchronous form of Mnih et al. 2016.

Source: "Asynchronous Methods for Deep Reinforcement Learning", algorithm S3, with synchronous worlds in place of
asynchronous threads. Advantages are generalized; `gae_lambda = 1` gives the paper's n-step returns. Truncations are
bootstrapped from the true last observation. Unlike PPO, each rollout is used for one gradient step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import warp as wp
from torch import Tensor

from gpu_envs.utils.settings import setting
from trainers.algorithms.on_policy.actor_critic import ActorCriticConfig
from trainers.algorithms.on_policy.actor_critic_learner import ActorCriticLearner
from trainers.algorithms.on_policy.advantages import explained_variance
from trainers.algorithms.on_policy.objective import Minibatch, Objective
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam, make_rmsprop, set_learning_rate
from warp_kernels.networks.losses import KernelHead


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
    """Step size of the optimizer after `total_steps`, reached along `schedule`."""
    gae_lambda: float = setting(1.0, ge=0, le=1)
    """Decay of the advantage estimator, in [0, 1]: 0 is one-step, 1 sums all rewards of the rollout."""
    entropy_coef: float = setting(0.01, ge=0)
    """Weight of the entropy bonus. Raise it for more exploration."""
    normalize_advantage: bool = False
    """Normalize the advantages of each rollout to mean 0 and standard deviation 1."""


@wp.func(inline=True)
def advantage_policy(log_prob: float, entropy: float, advantage: float, entropy_coef: float):
    """Return derivatives by log-probability and entropy, and the metrics of the policy, see `AdvantageObjective`."""
    return -advantage, -entropy_coef, -(log_prob * advantage), entropy


@wp.func(inline=True)
def squared_error(value: float, returns: float, value_coef: float):
    """Return the derivative by the value, and its loss."""
    error = value - returns
    return value_coef * error, 0.5 * (error * error)


class AdvantageObjective(Objective):
    """Log-probability times advantage, algorithm S3, with a squared value error and an entropy bonus."""

    settings = ("entropy_coef", "value_coef")
    kernel_head = KernelHead(advantage_policy, ("policy_loss", "entropy"), squared_error, ("value_loss",))

    def loss(self, batch: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a minibatch and metrics, see `Objective.loss`."""
        policy_loss = -batch.mean(batch.log_prob * batch.advantage)
        value_loss = 0.5 * batch.mean((batch.value - batch.returns).square())
        entropy = batch.mean(batch.entropy)
        settings = batch.settings
        loss = policy_loss + settings["value_coef"] * value_loss - settings["entropy_coef"] * entropy
        return loss, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}


class A2C(ActorCriticLearner):
    """Learner of A2C. The critic values a whole rollout in one batch, in `update`."""

    objective: Objective = AdvantageObjective()
    kernel_methods: tuple[str, ...] = ("act", "observe", "batch", "_learn", "_loss", "_outputs")

    def __init__(self, config: A2CConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        super().__init__(config, spec)
        if config.optimizer == "adam":
            self.optimizer = make_adam(self.net.parameters(), config.learning_rate, spec.captured, eps=1e-5)
        else:
            self.optimizer = make_rmsprop(
                self.net.parameters(), config.learning_rate, spec.captured, alpha=0.99, eps=1e-5
            )
        self.optimizers: dict[str, torch.optim.Optimizer] = {config.optimizer: self.optimizer}

    def _schedule(self, progress: float) -> dict[str, float]:
        learning_rate = self.scheduled(self.config.learning_rate, self.config.learning_rate_final, progress)
        set_learning_rate(self.optimizer, learning_rate)
        return {"learning_rate": learning_rate}

    def _learn(self) -> dict[str, Tensor]:
        """Take one gradient step on the stored rollout and update the normalizers."""
        fixed_shapes = self.uses_fixed_shapes
        batch = self.engine.batch(self.reducer, fixed_shapes)
        sampler = self.reducer.minibatch_sampler(batch, self.rollout.length, self.rollout.rows_per_step, fixed_shapes)
        if sampler.num_decisions == 0:
            return {}
        self.engine.step(self.reducer, self._loss, [(None, sampler.divisor)], sampler.active, self.loss_settings)
        self.engine.finish()
        metrics = dict(self.engine.totals())
        metrics["explained_variance"] = explained_variance(batch, self.reducer)
        self._update_normalizers(batch)
        return metrics
