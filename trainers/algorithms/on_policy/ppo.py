"""Proximal policy optimization (PPO, Schulman et al. 2017) for agents that share one policy.

Implementation details follow Huang et al. 2022, "The 37 Implementation Details of Proximal Policy Optimization", except
for truncations, which are bootstrapped from the true last observation. With `critic_input = "state"` it is MAPPO (Yu et
al. 2022). With `network = "gru"` it learns from whole sequences, with gradients through time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.utils.settings import Bounds, setting
from trainers.algorithms.on_policy.actor_critic import ActorCriticConfig
from trainers.algorithms.on_policy.actor_critic_learner import ActorCriticLearner
from trainers.algorithms.on_policy.advantages import explained_variance, forward_batch, minibatch
from trainers.base.gradients import linear_schedule
from trainers.base.learner_spec import LearnerSpec
from trainers.models.normalization import masked_mean

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
    """End an update after the pass whose mean KL divergence exceeds this, at one host sync per pass; None: never."""


class PPO(ActorCriticLearner):
    """Learner of PPO. The critic values a whole rollout in one batch, in `update`."""

    def __init__(self, config: PPOConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        super().__init__(config, spec)
        self.config = config
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=config.learning_rate, eps=1e-5, fused=True)
        self.optimizers = {"adam": self.optimizer}

    def update(self) -> dict[str, Tensor]:
        """Learn from the stored rollout.

        Invalid rows are removed, or masked in sequences, before any loss or statistic. The normalizers are updated
        after the gradient steps, so that the first probability ratios are exactly 1.

        Returns:
            Metrics, scalars on the device; empty if no row is valid.
        """
        c, progress = self.config, self.steps / self.total_steps
        learning_rate = linear_schedule(c.learning_rate, c.learning_rate_final, progress)
        entropy_coef = linear_schedule(c.entropy_coef, c.entropy_coef_final, progress)
        self.optimizer.param_groups[0]["lr"] = learning_rate

        batch = self.agent.batch(self.reducer)
        sampler = self.reducer.minibatch_sampler(batch, self.rollout.length, self.rollout.rows_per_step)
        metrics: dict[str, Tensor] = {}
        if sampler.num_decisions > 0:
            totals: dict[str, Tensor] = {}
            gradient_steps = 0
            for _ in range(c.num_epochs):
                kl_before = totals["approx_kl"].clone() if totals else torch.zeros((), device=self.device)
                minibatches = sampler.minibatches(min(c.num_minibatches, sampler.max_minibatches), self.generator)
                for rows, divisor in minibatches:
                    for name, value in self._minibatch_step(batch, rows, divisor, entropy_coef).items():
                        totals[name] = totals[name] + value if name in totals else value
                gradient_steps += len(minibatches)
                if c.target_kl is not None:
                    kl = self.reducer.mean(totals["approx_kl"] - kl_before)
                    if float(kl) > c.target_kl * len(minibatches):
                        break
            metrics = {name: value / gradient_steps for name, value in totals.items()}
            metrics["explained_variance"] = explained_variance(batch, self.reducer)
            numbers = {"gradient_steps": gradient_steps, "learning_rate": learning_rate, "entropy_coef": entropy_coef}
            metrics |= {name: torch.full((), float(number), device=self.device) for name, number in numbers.items()}
            self.agent.update_normalizer(batch, self.reducer.sum)
        self.steps += self.agent.next_rollout()
        return metrics

    def _minibatch_step(
        self, batch: dict[str, Tensor], rows: Tensor, divisor: Tensor | float | None, entropy_coef: float
    ) -> dict[str, Tensor]:
        """Take one Adam step on the clipped objective, eq. 9; `divisor` as in `MinibatchSampler`."""
        c, part = self.config, minibatch(batch, rows, self.net.critic_input)
        valid, advantage, returns = part.get("valid"), part["advantage"], part["returns"]
        params = forward_batch(self.actor, part["obs"], part, "actor")
        log_prob, entropy = self.head.evaluate(params, part["action"], part.get("mask"))
        log_ratio = log_prob - part["log_prob"]
        ratio = log_ratio.exp()
        gain = torch.min(ratio * advantage, ratio.clamp(1 - c.clip_range, 1 + c.clip_range) * advantage)
        policy_loss = -masked_mean(gain, valid, divisor)

        value = forward_batch(self.critic, part["seen"], part, "critic").squeeze(-1)
        error = (value - returns).square()
        if c.clip_range_vf is not None:
            clipped = part["value"] + (value - part["value"]).clamp(-c.clip_range_vf, c.clip_range_vf)
            error = torch.max(error, (clipped - returns).square())
        value_loss = 0.5 * masked_mean(error, valid, divisor)

        loss = policy_loss + c.value_coef * value_loss - entropy_coef * masked_mean(entropy, valid, divisor)
        grad_norm = self.reducer.step(self.optimizer, loss, c.max_grad_norm)
        with torch.no_grad():
            return {
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": masked_mean(entropy, valid, divisor),
                # Schulman 2020: unbiased and never negative
                "approx_kl": masked_mean(ratio - 1 - log_ratio, valid, divisor),
                "clip_fraction": masked_mean(((ratio - 1).abs() > c.clip_range).float(), valid, divisor),
                "grad_norm": grad_norm,
            }
