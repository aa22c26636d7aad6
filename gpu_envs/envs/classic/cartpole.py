"""CartPole-v1 (1 agent): Balance a pole on a cart."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, params_of
from gpu_envs.descriptions import ANY, ObservationBlock
from gpu_envs.envs.classic.single_agent import define
from gpu_envs.rendering.scene import DARK, GRAY, ORANGE, RED, Scene, boxes, circles, join, lines
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.classic import cartpole

START = (-0.05, 0.05)
"""Range of the initial motion [m, m/s, rad, rad/s]."""


@dataclass(frozen=True)
class Config:
    """Settings of CartPole-v1, with the names (arguments and attributes) and defaults of Gymnasium."""

    sutton_barto_reward: bool = setting(False)
    """Reward 0 per step and -1 in the last one, instead of 1 per step."""
    gravity: float = setting(9.8)
    """Gravity [m/s²]."""
    masscart: float = setting(1.0, ge=1e-6)
    """Mass of the cart [kg]."""
    masspole: float = setting(0.1, ge=0.0)
    """Mass of the pole [kg]."""
    length: float = setting(0.5, ge=1e-6)
    """Half the length of the pole [m]."""
    force_mag: float = setting(10.0)
    """Force of a push [N]."""
    tau: float = setting(0.02, ge=0.0)
    """Time step [s]."""
    kinematics_integrator: str = setting("euler", choices=("euler", "semi-implicit euler"))
    """Integrator: positions are updated with the old ("euler") or the new velocities."""
    theta_threshold_radians: float = setting(12 * 2 * math.pi / 360, ge=0.0)
    """Absolute angle of the pole beyond which the episode terminates [rad]."""
    x_threshold: float = setting(2.4, ge=0.0)
    """Absolute position of the cart beyond which the episode terminates [m]."""
    max_episode_steps: int = setting(500, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""


def build(config: Config) -> EnvDefinition:
    return define(
        config,
        motion_space(config),
        spaces.Discrete(2),
        start=START,
        rules=cartpole.rules(),
        params=parameters(config),
        draw=draw,
        render_fps=50,
    )


def parameters(config: Config) -> dict[str, float | int]:
    """Return the environment parameters of the settings."""
    return params_of(
        config,
        cartpole.Params,
        semi_implicit=int(config.kinematics_integrator != "euler"),
        step_reward=0.0 if config.sutton_barto_reward else 1.0,
        fall_reward=-1.0 if config.sutton_barto_reward else 1.0,
        start_low=START[0],
        start_high=START[1],
    )


def motion_space(config: Config) -> spaces.Box:
    """Return the observation space: the motion, with bounds of twice the thresholds.

    The last observation of an episode is inside.
    """
    high = np.array([config.x_threshold * 2, np.inf, config.theta_threshold_radians * 2, np.inf], np.float32)
    return spaces.Box(-high, high, dtype=np.float32)


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: the track with its two ends, the cart and the pole."""
    shapes, cart, bounds = cart_shapes(core.world_state["motion"][envs], core.get_params(envs))
    return Scene(shapes, bounds, agents=cart)


def cart_shapes(
    motion: torch.Tensor, params: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the track with its two ends, the cart and the pole.

    Args:
        motion: Motion (W, 4) [m, m/s, rad, rad/s].
        params: Environment parameters by name, each (1,) or (W,).

    Returns:
        Rows of all shapes (W, M, 10), the row of the cart (W, 1, 10), and the bounds of the frame (W or 1, 4) [m].
    """
    x, angle = motion[:, 0], motion[:, 2]
    half, end = params["length"], params["x_threshold"]
    zero, size = torch.zeros_like(x), 0.16 * end  # of the cart
    side = 1.25 * end  # of the frame, which contains the whole cart at the ends of the track

    def places(*points: tuple) -> torch.Tensor:
        """Return points (x, y) as a tensor (W, N, 2)."""
        return torch.stack([torch.stack(torch.broadcast_tensors(*point, zero)[:2], -1) for point in points], 1)

    axle = places((x, zero))
    tip = places((x + 2.0 * half * torch.sin(angle), 2.0 * half * torch.cos(angle)))
    track, low, wide = -0.9 * size, -0.6 * end, size[:, None]
    cart = boxes(places((x, -0.25 * size)), torch.stack([size, 0.45 * size], -1)[:, None], DARK)
    parts = [
        boxes(places((zero, 0.5 * (track + low))), torch.stack([side, 0.5 * (track - low)], -1)[:, None], GRAY, 0.3),
        lines(places((-side, track)), places((side, track)), 0.03 * end[:, None], GRAY),
        lines(places((-end, track), (end, track)), places((-end, track + size), (end, track + size)), 0.1 * wide, RED),
        circles(
            places((x - 0.55 * size, track + 0.2 * size), (x + 0.55 * size, track + 0.2 * size)), 0.22 * wide, DARK
        ),
        cart,
        lines(axle, tip, 0.3 * wide, ORANGE),
        circles(axle, 0.13 * wide, GRAY),
    ]
    return join(*parts), cart, torch.stack([-side, low, side, low + 2.0 * side], -1)


def action_names(config: Config, row: int) -> list[str]:
    return ["left", "right"]


def observation_blocks(config: Config, row: int, word: str = "the") -> list[ObservationBlock]:
    """Return the observation blocks of an agent; ``word`` stands before its cart and pole."""
    x, angle = 2 * config.x_threshold, 2 * config.theta_threshold_radians
    return [
        ObservationBlock(f"position of {word} cart, 0 in the middle", "m", -x, x),
        ObservationBlock(f"velocity of {word} cart", "m/s", -ANY, ANY),
        ObservationBlock(f"angle of {word} pole, 0 upright, positive to the right", "rad", -angle, angle),
        ObservationBlock(f"angular velocity of {word} pole", "rad/s", -ANY, ANY),
    ]
