"""A learner of a user, named by "own_learner:Doubled" in tests of configuration files."""

from dataclasses import dataclass

from gpu_envs.utils.settings import setting
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig


@dataclass(frozen=True)
class DoubledConfig(PPOConfig):
    """Settings of PPO and one more."""

    factor: float = setting(2.0, gt=0)
    """Factor of the learning rate."""


class Doubled(PPO):
    """PPO whose learning rate is multiplied."""
