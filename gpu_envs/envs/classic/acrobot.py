"""Acrobot-v1 on the host: settings, spaces, drawing. Rules: ``warp_kernels/classic/acrobot.py``."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.classic.starts import BOUNDS, bounds
from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition
from warp_kernels.classic import acrobot

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene

START = (-0.1, 0.1)
"""Range of every part of the motion at the start [rad, rad/s]."""


@dataclass(frozen=True)
class Config:
    """Settings of Acrobot-v1, under Gymnasium's names (attributes of its class, in small letters) and its defaults."""

    book_or_nips: str = setting("book", choices=("book", "nips"))
    """Dynamics as in the book, or as printed in the paper, which leaves out terms."""
    torque_noise_max: float = setting(0.0, low=0.0)
    """Largest disturbance of the torque, either way, drawn every step [N m]."""
    torque: float = setting(1.0)
    """Torque of the motor, either way: Gymnasium's AVAIL_TORQUE is [-torque, 0, torque] [N m]."""
    dt: float = setting(0.2, low=0.0)
    """Time between steps [s]."""
    link_length_1: float = setting(1.0, low=1e-6)
    """Length of the upper link [m]."""
    link_length_2: float = setting(1.0, low=1e-6)
    """Length of the lower link, for pictures [m]."""
    link_mass_1: float = setting(1.0, low=1e-6)
    """Mass of the upper link [kg]."""
    link_mass_2: float = setting(1.0, low=1e-6)
    """Mass of the lower link [kg]."""
    link_com_pos_1: float = setting(0.5)
    """From the pivot to the upper link's centre of mass [m]."""
    link_com_pos_2: float = setting(0.5)
    """From the joint to the lower link's centre of mass [m]."""
    link_moi: float = setting(1.0, low=1e-6)
    """Moment of inertia of either link [kg m²]."""
    max_vel_1: float = setting(4 * math.pi, low=0.0)
    """Largest angular velocity of the upper link, either way [rad/s]."""
    max_vel_2: float = setting(9 * math.pi, low=0.0)
    """Largest angular velocity of the lower link, either way [rad/s]."""
    max_episode_steps: int = setting(500, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    own = "torque_noise_max torque dt link_length_1 link_mass_1 link_mass_2 link_com_pos_1 link_com_pos_2 link_moi"
    high = np.array([1.0, 1.0, 1.0, 1.0, config.max_vel_1, config.max_vel_2], np.float32)
    return Definition(
        rules=acrobot.rules(),
        params={name: getattr(config, name) for name in (*own.split(), "max_vel_1", "max_vel_2")}
        | {
            "gravity": 9.8,
            "nips": int(config.book_or_nips == "nips"),
            "goal_height": 1.0,
            "start_low": START[0],
            "start_high": START[1],
        },
        state={"motion": ()},
        agents=("agent_0",),
        groups={"agent": (0,)},
        observation_spaces={"agent_0": spaces.Box(-high, high, dtype=np.float32)},
        action_spaces={"agent_0": spaces.Discrete(3)},
        max_steps=config.max_episode_steps,
        limit_terminates=False,
        reset_options=lambda options: bounds(options, *START),
        reset_option_names=BOUNDS,
        draw=draw,
        render_fps=15,
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: the two links, and the height that the free end must reach."""
    from gpu_envs.rendering import BLUE, DARK, GREEN, ORANGE, Scene, circles, join, lines

    motion, params = core.world_state["motion"][envs], core.get_params(envs)
    upper, lower = params["link_length_1"][:, None], core.config.link_length_2
    first, both = motion[:, :1], motion[:, :1] + motion[:, 1:2]
    reach = upper + lower

    def hanging(angle: torch.Tensor, length: torch.Tensor | float) -> torch.Tensor:
        """From a joint to the end of a link (W, 1, 2); angles from hanging down, counter-clockwise."""
        return length * torch.stack([torch.sin(angle), -torch.cos(angle)], -1)

    pivot = torch.zeros_like(hanging(first, 1.0))
    joint = pivot + hanging(first, upper[..., None])
    end = joint + hanging(both, lower)
    height = params["goal_height"][:, None]
    goal = [torch.stack([side * 1.1 * reach, height], -1) for side in (-1.0, 1.0)]
    parts = [
        lines(goal[0], goal[1], 0.015 * reach, GREEN),
        lines(pivot, joint, 0.1 * reach, BLUE),
        lines(joint, end, 0.08 * reach, ORANGE),
        circles(torch.cat([pivot, joint], 1), 0.03 * reach, DARK),
        circles(end, 0.02 * reach, DARK),
    ]
    side = 1.1 * reach
    return Scene(join(*parts), torch.cat([-side, -side, side, side], 1), agents=circles(end, 0.05 * reach, ORANGE))
