"""Pendulum-v1 (1 agent): Swing a pendulum up and keep it there."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.classic.single_agent import define, number
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, RED, Scene, circles, join, lines, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.classic import pendulum

START = {"x_init": ("start_angle", math.pi), "y_init": ("start_speed", 1.0)}
"""Environment parameter and default value [rad, rad/s] of each reset option."""


@dataclass(frozen=True)
class Config:
    """Settings of Pendulum-v1, with the names (arguments and attributes) and defaults of Gymnasium."""

    g: float = setting(10.0)
    """Gravity [m/s²]."""
    m: float = setting(1.0, ge=1e-6)
    """Mass of the rod [kg]."""
    l: float = setting(1.0, ge=1e-6)
    """Length of the rod [m]."""
    dt: float = setting(0.05, ge=0.0)
    """Time step [s]."""
    max_speed: float = setting(8.0, ge=0.0)
    """Maximum absolute angular velocity [rad/s]."""
    max_torque: float = setting(2.0, ge=1e-6)
    """Maximum absolute torque of the motor [N m]."""
    max_episode_steps: int = setting(200, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""


def build(config: Config) -> EnvDefinition:
    high = np.array([1.0, 1.0, config.max_speed], np.float32)
    return define(
        config,
        spaces.Box(-high, high, dtype=np.float32),
        spaces.Box(-config.max_torque, config.max_torque, (1,), np.float32),
        rules=pendulum.rules(),
        params=params_of(config, pendulum.Params, **dict(START.values())),
        state={"motion": (), "torque": ()},
        reset_options=widths,
        reset_option_names=("x_init", "y_init"),
        saturates=True,
        draw=draw,
        render_fps=30,
    )


def widths(options: dict[str, Any]) -> dict[str, float]:
    """Return the environment parameters of the reset options "x_init" and "y_init".

    Raises:
        ConfigError: An option is not a finite number >= 0.
    """
    values = {}
    for name, (constant, usual) in START.items():
        if name in options:
            values[constant] = number(options, name, usual)
            if values[constant] < 0.0:
                raise ConfigError(f"options[{name!r}]: expected a finite number >= 0, got {options[name]!r}")
    return values


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: the rod, and an arc whose length and side show the torque of the motor."""
    motion, params = core.world_state["motion"][envs], core.get_params(envs)
    length = params["l"][:, None]

    def at(angle: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
        """Return points (W, N, 2) at angles from upright, counter-clockwise."""
        return torch.stack([-radius * torch.sin(angle), radius * torch.cos(angle)], -1)

    angle = motion[:, :1]
    pivot, end = at(angle, 0.0 * length), at(angle, length)
    share = core.world_state["torque"][envs][:, None] / params["max_torque"][:, None]
    steps = torch.linspace(0.0, 1.0, 41, device=core.device)
    arc = at(0.75 * math.pi * share * steps, 0.42 * length)
    parts = [
        rings(pivot, length, GRAY, 0.012 * length, alpha=0.5),
        lines(arc[:, :-1], arc[:, 1:], 0.05 * length, BLUE, alpha=share.abs() > 0.02),
        circles(arc[:, -1:], 0.06 * length, BLUE, alpha=share.abs() > 0.02),
        lines(pivot, end, 0.2 * length, RED),
        circles(pivot, 0.055 * length, DARK),
    ]
    reach = 1.3 * length
    return Scene(
        join(*parts), torch.cat([-reach, -reach, reach, reach], 1), agents=circles(end, 0.1 * length, RED), ground=1
    )


def action_parts(config: Config, row: int) -> list[str]:
    """Return the name of the action's component."""
    return ["torque"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [
        ObservationBlock("cosine of the angle: height of the free end", "`l`", -1, 1),
        ObservationBlock("sine of the angle: horizontal offset of the free end, positive to the left", "`l`", -1, 1),
        ObservationBlock("angular velocity", "rad/s", -config.max_speed, config.max_speed),
    ]
