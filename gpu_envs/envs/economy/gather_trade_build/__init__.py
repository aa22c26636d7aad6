"""Host modules of GatherTradeBuild-v0."""

from gpu_envs.envs.economy.gather_trade_build.gather_trade_build import (
    REWARD_TYPES,
    SKILLS,
    Config,
    build,
    ranked_payments,
    ranked_places,
)
from gpu_envs.envs.economy.gather_trade_build.labels import action_names, observation_blocks

__all__ = [
    "REWARD_TYPES",
    "SKILLS",
    "Config",
    "action_names",
    "build",
    "observation_blocks",
    "ranked_payments",
    "ranked_places",
]
