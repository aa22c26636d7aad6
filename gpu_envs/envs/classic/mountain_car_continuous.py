"""MountainCarContinuous-v0 on the host: settings, spaces.

Its picture is that of MountainCar-v0. Rules: ``warp_kernels/classic/mountain_car_continuous.py``.
"""

from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from gpu_envs.classic.mountain_car import START, check_walls, draw, track_space
from gpu_envs.classic.starts import BOUNDS, bounds
from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition
from warp_kernels.classic import mountain_car_continuous


@dataclass(frozen=True)
class Config:
    """Settings of MountainCarContinuous-v0, under Gymnasium's names (arguments, attributes) and with its defaults."""

    goal_velocity: float = setting(0.0)
    """Slowest arrival that counts [m/step]."""
    goal_position: float = setting(0.45)
    """Where the flag stands [m]."""
    min_position: float = setting(-1.2)
    """The wall on the left [m]."""
    max_position: float = setting(0.6)
    """The wall on the right [m]."""
    max_speed: float = setting(0.07, low=0.0)
    """Largest velocity, either way [m/step]."""
    max_action: float = setting(1.0, low=1e-6)
    """Full throttle, forward or back."""
    power: float = setting(0.0015)
    """Acceleration at a throttle of 1 [m/step²]."""
    max_episode_steps: int = setting(999, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""

    def __post_init__(self) -> None:
        """Rules between fields."""
        check_walls(self.min_position, self.max_position)


def build(config: Config) -> Definition:
    """Put the environment together."""
    own = ["goal_velocity", "goal_position", "min_position", "max_position", "max_speed", "max_action", "power"]
    return Definition(
        rules=mountain_car_continuous.rules(),
        params={name: getattr(config, name) for name in own}
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
        max_steps=config.max_episode_steps,
        limit_terminates=False,
        reset_options=lambda options: bounds(options, *START),
        reset_option_names=BOUNDS,
        saturates=True,
        draw=draw,
        render_fps=30,
    )
