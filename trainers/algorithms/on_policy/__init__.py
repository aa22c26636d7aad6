"""Algorithms that learn from rollouts of the current policy: PPO and A2C."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.algorithms.on_policy.a2c import A2C, A2CConfig
    from trainers.algorithms.on_policy.ppo import PPO, PPOConfig

__all__ = ["A2C", "PPO", "A2CConfig", "PPOConfig"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        **dict.fromkeys(("A2C", "A2CConfig"), "trainers.algorithms.on_policy.a2c"),
        **dict.fromkeys(("PPO", "PPOConfig"), "trainers.algorithms.on_policy.ppo"),
    },
)
