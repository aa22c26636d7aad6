"""Host modules of RobotWarehouse-v0."""

from gpu_envs.envs.grid.robot_warehouse.robot_warehouse import (
    REWARD_TYPES,
    Config,
    build,
    nested_space,
    original_settings,
)

__all__ = ["REWARD_TYPES", "Config", "build", "nested_space", "original_settings"]
