"""MountainCarContinuous-v0 (1 agent): Drive a weak car up a hill by any force.

The scene is MountainCar-v0's.
"""

from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, params_of
from gpu_envs.envs.classic import mountain_car
from gpu_envs.envs.classic.mountain_car import START, check_walls, draw, track_space
from gpu_envs.envs.classic.single_agent import define
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.classic import mountain_car_continuous

observation_blocks = mountain_car.observation_blocks


@dataclass(frozen=True)
class Config:
    """Settings of MountainCarContinuous-v0, with the names (arguments, attributes) and defaults of Gymnasium."""

    goal_velocity: float = setting(0.0)
    """Minimum velocity at the goal [m/step]."""
    goal_position: float = setting(0.45)
    """Position of the goal [m]."""
    min_position: float = setting(-1.2)
    """Position of the left wall [m]."""
    max_position: float = setting(0.6)
    """Position of the right wall [m]."""
    max_speed: float = setting(0.07, ge=0.0)
    """Maximum absolute velocity [m/step]."""
    max_action: float = setting(1.0, ge=1e-6)
    """Maximum absolute throttle."""
    power: float = setting(0.0015)
    """Acceleration at a throttle of 1 [m/step²]."""
    max_episode_steps: int = setting(999, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""

    def __post_init__(self) -> None:
        """Check conditions that involve several fields."""
        check_walls(self.min_position, self.max_position)


def build(config: Config) -> EnvDefinition:
    return define(
        config,
        track_space(config.min_position, config.max_position, config.max_speed),
        spaces.Box(-config.max_action, config.max_action, (1,), np.float32),
        start=START,
        rules=mountain_car_continuous.rules(),
        params=params_of(
            config,
            mountain_car_continuous.Params,
            gravity=0.0025,
            goal_reward=100.0,
            action_cost=0.1,
            start_low=START[0],
            start_high=START[1],
        ),
        saturates=True,
        draw=draw,
        render_fps=30,
    )


def action_parts(config: Config, row: int) -> list[str]:
    """Return the name of the action's component."""
    return ["throttle"]
