"""Pendulum-v1 on the host: settings, spaces, drawing. Rules: ``warp_kernels/classic/pendulum.py``."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.classic.starts import number
from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition
from gpu_envs.errors import ConfigError
from warp_kernels.classic import pendulum

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene

START = {"x_init": ("start_angle", math.pi), "y_init": ("start_speed", 1.0)}
"""By option of a reset: the constant that it sets, and its usual value [rad, rad/s]."""


@dataclass(frozen=True)
class Config:
    """Settings of Pendulum-v1, under Gymnasium's names (arguments and attributes) and with its defaults."""

    g: float = setting(10.0)
    """Gravity [m/s²]."""
    m: float = setting(1.0, low=1e-6)
    """Mass of the rod [kg]."""
    l: float = setting(1.0, low=1e-6)
    """Its length [m]."""
    dt: float = setting(0.05, low=0.0)
    """Time between steps [s]."""
    max_speed: float = setting(8.0, low=0.0)
    """Largest angular velocity, either way [rad/s]."""
    max_torque: float = setting(2.0, low=1e-6)
    """Largest torque of the motor, either way [N m]."""
    max_episode_steps: int = setting(200, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    high = np.array([1.0, 1.0, config.max_speed], np.float32)
    return Definition(
        rules=pendulum.rules(),
        params={name: getattr(config, name) for name in ("g", "m", "l", "dt", "max_speed", "max_torque")}
        | dict(START.values()),
        state={"motion": (), "torque": ()},
        agents=("agent_0",),
        groups={"agent": (0,)},
        observation_spaces={"agent_0": spaces.Box(-high, high, dtype=np.float32)},
        action_spaces={"agent_0": spaces.Box(-config.max_torque, config.max_torque, (1,), np.float32)},
        max_steps=config.max_episode_steps,
        limit_terminates=False,
        reset_options=widths,
        reset_option_names=("x_init", "y_init"),
        saturates=True,
        draw=draw,
        render_fps=30,
    )


def widths(options: dict[str, Any]) -> dict[str, float]:
    """The constants that the options "x_init" and "y_init" of a reset ask for.

    Raises:
        ConfigError: One is no finite number >= 0.
    """
    values = {}
    for name, (constant, usual) in START.items():
        if name in options:
            values[constant] = number(options, name, usual)
            if values[constant] < 0.0:
                raise ConfigError(f"options[{name!r}] must be a finite number >= 0, got {options[name]!r}")
    return values


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: the rod, and an arc that grows with the motor's torque, on the side it turns to."""
    from gpu_envs.rendering import BLUE, DARK, GREY, RED, Scene, circles, join, lines, rings

    motion, params = core.world_state["motion"][envs], core.get_params(envs)
    length = params["l"][:, None]

    def at(angle: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
        """Places (W, N, 2) at angles from upright, counter-clockwise."""
        return torch.stack([-radius * torch.sin(angle), radius * torch.cos(angle)], -1)

    angle = motion[:, :1]
    pivot, end = at(angle, 0.0 * length), at(angle, length)
    share = core.world_state["torque"][envs][:, None] / params["max_torque"][:, None]
    steps = torch.linspace(0.0, 1.0, 41, device=core.device)
    arc = at(0.75 * math.pi * share * steps, 0.42 * length)
    parts = [
        rings(pivot, length, GREY, 0.012 * length, alpha=0.5),
        lines(arc[:, :-1], arc[:, 1:], 0.05 * length, BLUE, alpha=share.abs() > 0.02),
        circles(arc[:, -1:], 0.06 * length, BLUE, alpha=share.abs() > 0.02),
        lines(pivot, end, 0.2 * length, RED),
        circles(pivot, 0.055 * length, DARK),
    ]
    reach = 1.3 * length
    return Scene(
        join(*parts), torch.cat([-reach, -reach, reach, reach], 1), agents=circles(end, 0.1 * length, RED), ground=1
    )
