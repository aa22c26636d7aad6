"""MountainCarContinuous-v0 (1 agent): Drive a weak car up a hill by any force.

The rules are in ``warp_kernels/classic/mountain_car_continuous.py``.

The scene is MountainCar-v0's.
"""

from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.envs.classic.mountain_car import START, check_walls, draw, observation_blocks, track_space
from gpu_envs.envs.classic.reset_ranges import BOUNDS, bounds
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.classic import mountain_car_continuous

__all__ = ["Config", "action_parts", "build", "observation_blocks"]


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
    """Build the environment definition."""
    names = ["goal_velocity", "goal_position", "min_position", "max_position", "max_speed", "max_action", "power"]
    return EnvDefinition(
        rules=mountain_car_continuous.rules(),
        params={name: getattr(config, name) for name in names}
        | {
            "gravity": 0.0025,
            "goal_reward": 100.0,
            "action_cost": 0.1,
            "start_low": START[0],
            "start_high": START[1],
        },
        state={"motion": ()},
        agents=("agent_0",),
        groups={"agent": (0,)},
        observation_spaces={"agent_0": track_space(config.min_position, config.max_position, config.max_speed)},
        action_spaces={"agent_0": spaces.Box(-config.max_action, config.max_action, (1,), np.float32)},
        max_episode_steps=config.max_episode_steps,
        time_limit_terminates=False,
        reset_options=lambda options: bounds(options, *START),
        reset_option_names=BOUNDS,
        saturates=True,
        draw=draw,
        render_fps=30,
    )


def action_parts(config: Config, row: int) -> list[str]:
    """Return the name of the action's component."""
    return ["throttle"]
