"""Proximal policy optimization (PPO, Schulman et al. 2017) for agents that share one policy.

Implementation details follow Huang et al. 2022, "The 37 Implementation Details of Proximal Policy Optimization", except
for truncations, which are bootstrapped from the true last observation. With `critic_input = "state"` it is MAPPO (Yu et
al. 2022). With `network = "gru"` it learns from whole sequences, with gradients through time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gpu_envs.utils.settings import Bounds, setting
from trainers.algorithms.on_policy.actor_critic import ActorCriticConfig
from trainers.algorithms.on_policy.actor_critic_learner import ActorCriticLearner
from trainers.algorithms.on_policy.advantages import explained_variance, forward_batch, minibatch
from trainers.base.gradients import linear_schedule
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam, set_learning_rate
from trainers.models.normalization import masked_mean
from warp_kernels.networks import losses

__all__ = ["PPO", "PPOConfig"]


@dataclass(frozen=True)
class PPOConfig(ActorCriticConfig):
    """Settings of PPO. A "step" is one step of one world, with all its agents."""

    num_epochs: int = setting(4, ge=1)
    """Passes over the rollout per update. Lower it if `approx_kl` is large."""
    num_minibatches: int = setting(4, ge=1)
    """Gradient steps per pass."""
    learning_rate: float = setting(1e-3, gt=0)
    """Step size of Adam at the start. Lower it if training is unstable."""
    learning_rate_final: float = setting(1e-4, ge=0)
    """Step size of Adam after `total_steps`, reached linearly."""
    clip_range: float = setting(0.2, gt=0)
    """Clipping of the probability ratio to [1 - clip_range, 1 + clip_range]."""
    clip_range_vf: float | None = setting(None, gt=0)
    """Largest change of a value prediction per update, in units of scaled return; None: no limit."""
    entropy_coef: float = setting(0.01, ge=0)
    """Weight of the entropy bonus at the start. Raise it for more exploration."""
    entropy_coef_final: float = setting(0.001, ge=0)
    """Weight of the entropy bonus after `total_steps`, reached linearly."""
    target_kl: float | None = setting(None, gt=0, requires={"num_epochs": Bounds(ge=2)})
    """End an update after the pass whose mean KL divergence exceeds this; None: never.
    A captured update masks the later passes, so they take their time."""


class PPO(ActorCriticLearner):
    """Learner of PPO. The critic values a whole rollout in one batch, in `update`."""

    objective = losses.PPO
    kernel_methods = ("act", "observe", "_learn", "_loss")

    def __init__(self, config: PPOConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        super().__init__(config, spec)
        self.config = config
        self.optimizer: torch.optim.Optimizer = make_adam(
            self.net.parameters(), config.learning_rate, spec.captured, eps=1e-5
        )
        self.optimizers: dict[str, torch.optim.Optimizer] = {"adam": self.optimizer}
        self.entropy_coef: Tensor = torch.full((), config.entropy_coef, device=self.device)

    def _schedule(self, progress: float) -> dict[str, float]:
        c = self.config
        learning_rate = linear_schedule(c.learning_rate, c.learning_rate_final, progress)
        entropy_coef = linear_schedule(c.entropy_coef, c.entropy_coef_final, progress)
        set_learning_rate(self.optimizer, learning_rate)
        self.entropy_coef.fill_(entropy_coef)
        return {"learning_rate": learning_rate, "entropy_coef": entropy_coef}

    def _learn(self) -> dict[str, Tensor]:
        """Take the gradient steps of all passes and update the normalizers.

        Invalid rows are removed, or masked in sequences and with `fixed_shapes`, before any loss or statistic.
        """
        c, zero, fixed_shapes = self.config, torch.zeros((), device=self.device), self.uses_fixed_shapes
        batch = self.engine.batch(self.reducer, fixed_shapes)
        sampler = self.reducer.minibatch_sampler(batch, self.rollout.length, self.rollout.rows_per_step, fixed_shapes)
        if sampler.num_decisions == 0:
            return {}
        gradient_steps, active = zero, sampler.active
        for _ in range(c.num_epochs):
            totals = self.engine.totals()
            kl_before, steps_before = totals["approx_kl"].clone() if totals else zero, gradient_steps
            minibatches = sampler.minibatches(min(c.num_minibatches, sampler.max_minibatches), self.generator)
            steps = self.engine.step(self.reducer, self._loss, minibatches, active, self._settings)
            gradient_steps = gradient_steps + steps
            if c.target_kl is not None:
                kl = self.reducer.mean(self.engine.totals()["approx_kl"] - kl_before)
                within = kl <= c.target_kl * (gradient_steps - steps_before)
                if active is not None:
                    active = active & within
                elif not bool(within):
                    break
        self.engine.finish()
        metrics = {name: value / gradient_steps.clamp(min=1.0) for name, value in self.engine.totals().items()}
        metrics |= {"explained_variance": explained_variance(batch, self.reducer), "gradient_steps": gradient_steps}
        self.agent.update_normalizer(batch, self.reducer.sum)
        return metrics

    @property
    def _settings(self) -> dict[str, Any]:
        """Settings of the loss by name; kernels read them, too."""
        c = self.config
        return {
            "clip_range": c.clip_range,
            "entropy_coef": self.entropy_coef,
            "value_coef": c.value_coef,
            "clip_range_vf": c.clip_range_vf,
        }

    def _loss(
        self, batch: dict[str, Tensor], rows: Tensor | None, divisor: Tensor | float | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the clipped objective of a minibatch, eq. 9, and metrics; `divisor` as in `MinibatchSampler`."""
        settings, part = self._settings, minibatch(batch, rows, self.net.critic_input)
        clip_range, clip_range_vf = settings["clip_range"], settings["clip_range_vf"]
        valid, advantage, returns = part.get("valid"), part["advantage"], part["returns"]
        params = forward_batch(self.actor, part["obs"], part, "actor")
        log_prob, entropy = self.head.evaluate(params, part["action"], part.get("mask"))
        log_ratio = log_prob - part["log_prob"]
        if valid is not None:  # a ratio that overflows would turn the gradients of all rows to NaN
            log_ratio = log_ratio.masked_fill(~valid, 0.0)
        ratio = log_ratio.exp()
        gain = torch.min(ratio * advantage, ratio.clamp(1 - clip_range, 1 + clip_range) * advantage)
        policy_loss = -masked_mean(gain, valid, divisor)

        value = forward_batch(self.critic, part["seen"], part, "critic").squeeze(-1)
        error = (value - returns).square()
        if clip_range_vf is not None:
            clipped = part["value"] + (value - part["value"]).clamp(-clip_range_vf, clip_range_vf)
            error = torch.max(error, (clipped - returns).square())
        value_loss = 0.5 * masked_mean(error, valid, divisor)

        bonus = settings["entropy_coef"] * masked_mean(entropy, valid, divisor)
        loss = policy_loss + settings["value_coef"] * value_loss - bonus
        with torch.no_grad():
            return loss, {
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": masked_mean(entropy, valid, divisor),
                # Schulman 2020: unbiased and never negative
                "approx_kl": masked_mean(ratio - 1 - log_ratio, valid, divisor),
                "clip_fraction": masked_mean(((ratio - 1).abs() > clip_range).float(), valid, divisor),
            }
