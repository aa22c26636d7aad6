"""DiscGame-v0 (2 agents): Points of a disc, where self-play cycles.

The rules are in ``warp_kernels/games/disc_game.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, box
from gpu_envs.descriptions import ObservationBlock, points
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.games import disc_game

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.scene import Scene

__all__ = ["AGENTS", "Config", "action_parts", "build", "draw", "observation_blocks"]

AGENTS = ("player_0", "player_1")  # in the order of rows


@dataclass(frozen=True)
class Config:
    """Settings of DiscGame-v0."""

    num_repetitions: int = setting(1, ge=1, le=MAX_INT)
    """Number of times T that the game is played in an episode, one step each. Observations contain t / T."""


def build(config: Config) -> EnvDefinition:
    """Build the environment definition."""
    return EnvDefinition(
        rules=disc_game.rules(),
        params={"num_repetitions": config.num_repetitions},
        state={"last": (2,)},
        agents=AGENTS,
        groups={"player": (0, 1)},
        roles={agent: (agent,) for agent in AGENTS},
        symmetric=True,
        zero_sum=True,
        observation_spaces={agent: box(5, -1.0, 1.0) for agent in AGENTS},
        action_spaces={agent: spaces.Box(-1.0, 1.0, (2,), np.float32) for agent in AGENTS},
        max_episode_steps=config.num_repetitions,
        time_limit_terminates=True,
        fixed_params=("num_repetitions",),
        draw=draw,
        render_fps=2,
    )


def draw(core: "WorldView", envs: torch.Tensor) -> "Scene":
    """Return the scene of these worlds.

    Both last points, and a triangle in the color of the winner whose doubled area is the payoff.
    """
    from gpu_envs.envs.games.scene import PAPER
    from gpu_envs.rendering.scene import BLUE, DARK, GRAY, RED, Scene, circles, join, lines, rings

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
        rings(middle, 1.0, GRAY, 0.015),
        lines(share * points[:, :1], share * points[:, 1:], 0.02, light, alpha=chosen),  # a triangle, filled
        lines(torch.zeros_like(points), points, 0.03, players, alpha=chosen),
        agents,
        circles(middle, 0.03, DARK),
    ]
    return Scene(join(*parts), (-1.1, -1.1, 1.1, 1.1), border=None, agents=agents)


def action_parts(config: Config, row: int) -> list[str]:
    """Return the names of the action's components."""
    return ["x", "y"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    return [
        points("own last point, x and y; zeros at the start", "", 1),
        points("the opponent's last point, x and y; zeros at the start", "", 1),
        ObservationBlock("time", "`num_repetitions`"),
    ]
