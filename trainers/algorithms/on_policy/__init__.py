"""Algorithms that learn from rollouts of the present policy, or of slightly older ones."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.algorithms.on_policy.a2c import A2C, A2CConfig
    from trainers.algorithms.on_policy.appo import APPO, APPOConfig
    from trainers.algorithms.on_policy.impala import IMPALA, IMPALAConfig
    from trainers.algorithms.on_policy.mmd import MMD, MMDConfig
    from trainers.algorithms.on_policy.pg import PG, PGConfig
    from trainers.algorithms.on_policy.ppo import PPO, PPOConfig

__all__ = [
    "A2C",
    "APPO",
    "IMPALA",
    "MMD",
    "PG",
    "PPO",
    "A2CConfig",
    "APPOConfig",
    "IMPALAConfig",
    "MMDConfig",
    "PGConfig",
    "PPOConfig",
]

__getattr__, __dir__ = lazy_exports(__name__)
