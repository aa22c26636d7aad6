"""Host modules of GatherTradeBuild-v0."""

from gpu_envs.envs.economy.gather_trade_build.gather_trade_build import (
    REWARD_TYPES,
    SKILLS,
    Config,
    action_names,
    build,
    observation_blocks,
    ranked_payments,
    ranked_places,
)

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
