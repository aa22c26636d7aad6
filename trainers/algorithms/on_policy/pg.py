"""Policy gradient (REINFORCE, Williams 1992) with and without a learned baseline, for agents that share one policy.

Source: Williams 1992, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning". The
return of a step is the discounted sum of rewards until the end of its episode, so only episodes that end within a
rollout are learned from. Each rollout is used for one gradient step.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from gpu_envs.utils.settings import setting
from trainers.algorithms.on_policy.a2c import A2C, A2CConfig
from trainers.algorithms.on_policy.estimators import Estimates, Steps, monte_carlo
from trainers.base.learner_spec import LearnerSpec


@dataclass(frozen=True)
class PGConfig(A2CConfig):
    """Settings of REINFORCE. A "step" is one step of one world, with all its agents."""

    rollout_length: int = setting(256, ge=1)
    """Steps per world between two updates. Make it longer than an episode: what does not end within it is lost."""
    optimizer: str = setting("adam", choices=("rmsprop", "adam"))
    """Optimizer: "adam" or "rmsprop"."""
    baseline: bool = True
    """Subtract the critic's value from returns, which lowers their variance. It also stands for the rewards after a
    time limit, which count as 0 without it."""
    normalize_advantage: bool = True
    """Normalize the advantages of each rollout to mean 0 and standard deviation 1."""

    def estimate(self, steps: Steps) -> Estimates:
        """Return Monte Carlo returns, and advantages over the baseline, see `Estimates`."""
        return monte_carlo(steps, self.gamma, self.baseline)


class PG(A2C):
    """Learner of REINFORCE: A2C's gradient step on the steps whose episode ends within the rollout."""

    def __init__(self, config: PGConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers. Without baseline the critic is not trained."""
        super().__init__(config if config.baseline else dataclasses.replace(config, value_coef=0.0), spec)
