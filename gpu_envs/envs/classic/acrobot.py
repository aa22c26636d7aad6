"""Acrobot-v1 (1 agent): Swing two links above a line."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.classic.single_agent import define
from gpu_envs.rendering.scene import BLUE, DARK, GREEN, ORANGE, Scene, circles, join, lines
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.classic import acrobot

START = (-0.1, 0.1)
"""Range of the initial motion [rad, rad/s]."""


@dataclass(frozen=True)
class Config:
    """Settings of Acrobot-v1, with the names (lower case attributes of the class) and defaults of Gymnasium."""

    book_or_nips: str = setting("book", choices=("book", "nips"))
    """Dynamics of the book, or of the paper, whose equations omit terms."""
    torque_noise_max: float = setting(0.0, ge=0.0)
    """Maximum of the torque noise, sampled uniformly in every step [N m]."""
    torque: float = setting(1.0)
    """Torque of the motor; AVAIL_TORQUE of Gymnasium is [-torque, 0, torque] [N m]."""
    dt: float = setting(0.2, ge=0.0)
    """Time step [s]."""
    link_length_1: float = setting(1.0, ge=1e-6)
    """Length of the upper link [m]."""
    link_length_2: float = setting(1.0, ge=1e-6)
    """Length of the lower link, for rendering only [m]."""
    link_mass_1: float = setting(1.0, ge=1e-6)
    """Mass of the upper link [kg]."""
    link_mass_2: float = setting(1.0, ge=1e-6)
    """Mass of the lower link [kg]."""
    link_com_pos_1: float = setting(0.5)
    """Distance from the pivot to the center of mass of the upper link [m]."""
    link_com_pos_2: float = setting(0.5)
    """Distance from the joint to the center of mass of the lower link [m]."""
    link_moi: float = setting(1.0, ge=1e-6)
    """Moment of inertia of either link [kg m²]."""
    max_vel_1: float = setting(4 * math.pi, ge=0.0)
    """Maximum absolute angular velocity of the upper link [rad/s]."""
    max_vel_2: float = setting(9 * math.pi, ge=0.0)
    """Maximum absolute angular velocity of the lower link [rad/s]."""
    max_episode_steps: int = setting(500, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""


def build(config: Config) -> EnvDefinition:
    high = np.array([1.0, 1.0, 1.0, 1.0, config.max_vel_1, config.max_vel_2], np.float32)
    return define(
        config,
        spaces.Box(-high, high, dtype=np.float32),
        spaces.Discrete(3),
        start=START,
        rules=acrobot.rules(),
        params=params_of(
            config,
            acrobot.Params,
            gravity=9.8,
            nips=int(config.book_or_nips == "nips"),
            goal_height=1.0,
            start_low=START[0],
            start_high=START[1],
        ),
        draw=draw,
        render_fps=15,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: the two links and the target height of the free end."""
    motion, params = core.world_state["motion"][envs], core.get_params(envs)
    upper, lower = params["link_length_1"][:, None], core.config.link_length_2
    first, second = motion[:, :1], motion[:, :1] + motion[:, 1:2]
    reach = upper + lower

    def hanging(angle: torch.Tensor, length: torch.Tensor | float) -> torch.Tensor:
        """Return the vector (W, 1, 2) from a joint to the end of a link; angle 0 hangs down, counter-clockwise."""
        return length * torch.stack([torch.sin(angle), -torch.cos(angle)], -1)

    pivot = torch.zeros_like(hanging(first, 1.0))
    joint = pivot + hanging(first, upper[..., None])
    end = joint + hanging(second, lower)
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


def action_names(config: Config, row: int) -> list[str]:
    """Return the names of the actions: torques on the lower link."""
    return ["-1 N m", "0 N m", "1 N m"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    upper, lower = "angle of the upper link, 0 hanging down", "angle of the lower link relative to the upper"
    return [
        *(
            ObservationBlock(f"{name} of the {angle}", "", -1, 1)
            for angle in (upper, lower)
            for name in ("cosine", "sine")
        ),
        ObservationBlock("angular velocity of the upper link", "rad/s", -config.max_vel_1, config.max_vel_1),
        ObservationBlock("angular velocity of the lower link", "rad/s", -config.max_vel_2, config.max_vel_2),
    ]
