"""MountainCar-v0 (1 agent): Drive a weak car up a hill."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.classic.single_agent import define
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, GREEN, RED, Scene, boxes, circles, join, lines
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.classic import mountain_car

START = (-0.6, -0.4)
"""Range of the initial position of the car [m]."""


@dataclass(frozen=True)
class Config:
    """Settings of MountainCar-v0, with the names (arguments and attributes) and defaults of Gymnasium."""

    goal_velocity: float = setting(0.0)
    """Minimum velocity at the goal [m/step]."""
    goal_position: float = setting(0.5)
    """Position of the goal [m]."""
    min_position: float = setting(-1.2)
    """Position of the left wall [m]."""
    max_position: float = setting(0.6)
    """Position of the right wall [m]."""
    max_speed: float = setting(0.07, ge=0.0)
    """Maximum absolute velocity [m/step]."""
    force: float = setting(0.001)
    """Acceleration of a push [m/step²]."""
    gravity: float = setting(0.0025)
    """Maximum acceleration by the slope [m/step²]."""
    max_episode_steps: int = setting(200, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""

    def __post_init__(self) -> None:
        """Check conditions that involve several fields."""
        check_walls(self.min_position, self.max_position)


def check_walls(low: float, high: float) -> None:
    """Raise a ConfigError unless the left wall is left of the right wall."""
    if low >= high:
        raise ConfigError(f"min_position: expected a value below max_position, got {low} and {high}")


def track_space(low: float, high: float, speed: float) -> spaces.Box:
    """Return the observation space of a car between two walls."""
    return spaces.Box(np.array([low, -speed], np.float32), np.array([high, speed], np.float32), dtype=np.float32)


def build(config: Config) -> EnvDefinition:
    return define(
        config,
        track_space(config.min_position, config.max_position, config.max_speed),
        spaces.Discrete(3),
        start=START,
        rules=mountain_car.rules(),
        params=params_of(config, mountain_car.Params, start_low=START[0], start_high=START[1]),
        draw=draw,
        render_fps=30,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: the mountain, the goal flag and the car."""
    params = core.get_params(envs)
    low, high = params["min_position"][:, None], params["max_position"][:, None]
    unit = (high - low) / 1.8

    def ground(x: torch.Tensor) -> torch.Tensor:
        """Return points of the ground (W, N, 2), with the height scale of Gymnasium."""
        return torch.stack([x, 0.45 * torch.sin(3.0 * x)], -1)

    left, right = low - 0.12 * unit, high + 0.12 * unit  # the whole car is visible at both ends
    edges = left + (right - left) * torch.linspace(0.0, 1.0, 97, device=core.device)
    floor = -1.05 * unit
    middles = ground(0.5 * (edges[:, 1:] + edges[:, :-1]))
    half = torch.stack([0.8 * (edges[:, 1:] - edges[:, :-1]), 0.5 * (middles[..., 1] - floor)], -1)
    hill = boxes(torch.stack([middles[..., 0], 0.5 * (middles[..., 1] + floor)], -1), half, (0.71, 0.88, 0.83))
    surface = ground(edges)

    x = core.world_state["motion"][envs][:, :1]
    slope = 1.35 * torch.cos(3.0 * x)
    along = torch.stack([torch.ones_like(slope), slope], -1) / torch.sqrt(1.0 + slope * slope)[..., None]
    up, size = torch.stack([-along[..., 1], along[..., 0]], -1), unit[..., None]
    wheels = torch.cat([ground(x) + (0.03 * up + side * 0.045 * along) * size for side in (-1.0, 1.0)], 1)
    body, roof = ground(x) + 0.062 * up * size, ground(x) + 0.095 * up * size
    flag = ground(params["goal_position"][:, None])
    top = flag + torch.stack([0.0 * unit, 0.24 * unit], -1)
    cloth = top + torch.stack([0.045 * unit, -0.035 * unit], -1)
    parts = [
        hill,
        lines(surface[:, :-1], surface[:, 1:], 0.012 * unit, GREEN),
        lines(flag, top, 0.012 * unit, DARK),
        boxes(cloth, torch.stack([0.045 * unit, 0.035 * unit], -1), RED),
        lines(roof - 0.025 * along * size, roof + 0.02 * along * size, 0.05 * unit, GRAY),
        lines(body - 0.06 * along * size, body + 0.06 * along * size, 0.05 * unit, BLUE),
        circles(wheels, 0.03 * unit, DARK),
        circles(wheels, 0.012 * unit, GRAY),
    ]
    box = torch.cat([left, floor, right, floor + (right - left)], 1)
    return Scene(join(*parts), box, background=(0.93, 0.96, 0.99), agents=circles(body, 0.085 * unit, BLUE))


def action_names(config: Config, row: int) -> list[str]:
    return ["left", "none", "right"]


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    return [
        ObservationBlock("position", "m", config.min_position, config.max_position),
        ObservationBlock("velocity", "m/step", -config.max_speed, config.max_speed),
    ]
