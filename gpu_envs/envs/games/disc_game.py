"""DiscGame-v0 on the host: settings, agents, spaces, drawing. Rules: ``warp_kernels/games/disc_game.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition, box
from warp_kernels.games import disc_game

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene

AGENTS = ("player_0", "player_1")  # in the order of rows


@dataclass(frozen=True)
class Config:
    """Settings of DiscGame-v0."""

    num_steps: int = setting(1, low=1, high=MAX_INT)
    """Steps of an episode, T; 1 is the one-shot game. The observation tells t / T."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    return Definition(
        rules=disc_game.rules(),
        params={"num_steps": config.num_steps},
        state={"last": (2,)},
        agents=AGENTS,
        groups={"player": (0, 1)},
        roles={agent: (agent,) for agent in AGENTS},
        symmetric=True,
        zero_sum=True,
        observation_spaces={agent: box(5, -1.0, 1.0) for agent in AGENTS},
        action_spaces={agent: spaces.Box(-1.0, 1.0, (2,), np.float32) for agent in AGENTS},
        max_steps=config.num_steps,
        limit_terminates=True,
        fixed_params=("num_steps",),
        draw=draw,
        render_fps=2,
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: both last points; what the winner earns is twice the area between them, in its colour."""
    from gpu_envs.games.drawing import PAPER
    from gpu_envs.rendering import BLUE, DARK, GREY, RED, Scene, circles, join, lines, rings

    points = core.world_state["last"][envs]
    chosen = points.abs().sum(-1).amax(1, keepdim=True) > 0
    middle = torch.zeros((1, 1, 2), device=core.device)
    players = torch.tensor((BLUE, RED), device=core.device)
    ahead = (points[:, 0, 0] * points[:, 1, 1] < points[:, 0, 1] * points[:, 1, 0]).long()
    light = 0.35 * players[ahead][:, None] + 0.65 * torch.tensor(PAPER, device=core.device)
    share = torch.linspace(0.0, 1.0, 81, device=core.device)[:, None]
    agents = circles(points, 0.07, players, alpha=chosen)
    parts = [
        circles(middle, 1.0, PAPER),
        rings(middle, 1.0, GREY, 0.015),
        lines(share * points[:, :1], share * points[:, 1:], 0.02, light, alpha=chosen),  # a triangle, filled
        lines(torch.zeros_like(points), points, 0.03, players, alpha=chosen),
        agents,
        circles(middle, 0.03, DARK),
    ]
    return Scene(join(*parts), (-1.1, -1.1, 1.1, 1.1), border=None, agents=agents)
