"""Proximal policy optimization (PPO, Schulman et al. 2017) for agents that share one policy.

Implementation details follow Huang et al. 2022, "The 37 Implementation Details of Proximal Policy Optimization", except
for truncations, which are bootstrapped from the true last observation. With `critic_input = "state"` it is MAPPO (Yu et
al. 2022). With `network = "gru"` it learns from whole sequences, with gradients through time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import warp as wp
from torch import Tensor

from gpu_envs.utils.settings import Bounds, setting
from trainers.algorithms.on_policy.actor_critic import ActorCriticConfig
from trainers.algorithms.on_policy.actor_critic_learner import ActorCriticLearner
from trainers.algorithms.on_policy.advantages import explained_variance
from trainers.algorithms.on_policy.objective import Minibatch, Objective
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam, set_learning_rate
from warp_kernels.networks.losses import KernelHead


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
    """Step size of Adam after `total_steps`, reached along `schedule`."""
    clip_range: float = setting(0.2, gt=0)
    """Clipping of the probability ratio to [1 - clip_range, 1 + clip_range]."""
    clip_range_vf: float | None = setting(None, gt=0)
    """Largest change of a value prediction per update, in units of scaled return; None: no limit."""
    entropy_coef: float = setting(0.01, ge=0)
    """Weight of the entropy bonus at the start. Raise it for more exploration."""
    entropy_coef_final: float = setting(0.001, ge=0)
    """Weight of the entropy bonus after `total_steps`, reached along `schedule`."""
    target_kl: float | None = setting(None, gt=0, requires={"num_epochs": Bounds(ge=2)})
    """End an update after the pass whose mean KL divergence exceeds this; None: never.
    A captured update masks the later passes, so they take their time."""


@wp.func(inline=True)
def clipped_policy(
    log_prob: float, entropy: float, old_log_prob: float, advantage: float, clip_range: float, entropy_coef: float
):
    """Return derivatives by log-probability and entropy, and the metrics of the policy, see `ClippedObjective`."""
    log_ratio = log_prob - old_log_prob
    ratio = wp.exp(log_ratio)
    free = ratio * advantage
    gain = wp.min(free, wp.clamp(ratio, 1.0 - clip_range, 1.0 + clip_range) * advantage)
    is_clipped = wp.where(wp.abs(ratio - 1.0) > clip_range, 1.0, 0.0)
    return wp.where(free <= gain, -free, 0.0), -entropy_coef, -gain, entropy, ratio - 1.0 - log_ratio, is_clipped


@wp.func(inline=True)
def clipped_value(value: float, returns: float, old_value: float, value_coef: float, clip_range_vf: float):
    """Return the derivative by the value, and its loss; a `clip_range_vf` below 0 does not clip."""
    by_value = value - returns
    square = by_value * by_value
    if clip_range_vf >= 0.0:
        change = value - old_value
        clipped = old_value + wp.clamp(change, -clip_range_vf, clip_range_vf) - returns
        if clipped * clipped > square:
            square = clipped * clipped
            by_value = wp.where(wp.abs(change) <= clip_range_vf, clipped, 0.0)
    return value_coef * by_value, 0.5 * square


class ClippedObjective(Objective):
    """Clipped objective, eq. 9, with an optionally clipped value loss."""

    settings = ("clip_range", "entropy_coef", "value_coef", "clip_range_vf")
    kernel_head = KernelHead(
        clipped_policy, ("policy_loss", "entropy", "approx_kl", "clip_fraction"), clipped_value, ("value_loss",)
    )

    def loss(self, batch: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a minibatch and metrics, see `Objective.loss`."""
        settings, advantage, log_ratio = batch.settings, batch.advantage, batch.log_ratio
        clip_range, clip_range_vf = settings["clip_range"], settings["clip_range_vf"]
        ratio = log_ratio.exp()
        gain = torch.min(ratio * advantage, ratio.clamp(1 - clip_range, 1 + clip_range) * advantage)
        policy_loss = -batch.mean(gain)
        error = (batch.value - batch.returns).square()
        if clip_range_vf is not None:
            clipped = batch.old_value + (batch.value - batch.old_value).clamp(-clip_range_vf, clip_range_vf)
            error = torch.max(error, (clipped - batch.returns).square())
        value_loss = 0.5 * batch.mean(error)
        entropy = batch.mean(batch.entropy)
        loss = policy_loss + settings["value_coef"] * value_loss - settings["entropy_coef"] * entropy
        metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        with torch.no_grad():
            metrics["approx_kl"] = batch.mean(ratio - 1 - log_ratio)  # Schulman 2020: unbiased and never negative
            metrics["clip_fraction"] = batch.mean(((ratio - 1).abs() > clip_range).float())
        return loss, metrics


class PPO(ActorCriticLearner):
    """Learner of PPO. The critic values a whole rollout in one batch, in `update`."""

    objective: Objective = ClippedObjective()
    kernel_methods: tuple[str, ...] = ("act", "observe", "batch", "_learn", "_loss", "_outputs")

    def __init__(self, config: PPOConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        super().__init__(config, spec)
        self.optimizer: torch.optim.Optimizer = make_adam(
            self.net.parameters(), config.learning_rate, spec.captured, eps=1e-5
        )
        self.optimizers: dict[str, torch.optim.Optimizer] = {"adam": self.optimizer}
        self.entropy_coef: Tensor = torch.full((), config.entropy_coef, device=self.device)

    def _schedule(self, progress: float) -> dict[str, float]:
        c = self.config
        learning_rate = self.scheduled(c.learning_rate, c.learning_rate_final, progress)
        entropy_coef = self.scheduled(c.entropy_coef, c.entropy_coef_final, progress)
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
            steps = self.engine.step(self.reducer, self._loss, minibatches, active, self.loss_settings)
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
        self._update_normalizers(batch)
        return metrics
