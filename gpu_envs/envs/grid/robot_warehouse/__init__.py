"""Host modules of RobotWarehouse-v0."""

from gpu_envs.envs.grid.robot_warehouse.robot_warehouse import (
    REWARD_TYPES,
    Config,
    action_names,
    build,
    nested_space,
    observation_blocks,
    original_settings,
)

__all__ = ["REWARD_TYPES", "Config", "action_names", "build", "nested_space", "observation_blocks", "original_settings"]
