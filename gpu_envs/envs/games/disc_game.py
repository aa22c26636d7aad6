"""DiscGame-v0 (2 agents): Points of a disc, where self-play cycles."""

from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, game_roster
from gpu_envs.descriptions import ObservationBlock, points
from gpu_envs.envs.games.scene import PAPER
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, RED, Scene, circles, join, lines, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.games import disc_game


@dataclass(frozen=True)
class Config:
    """Settings of DiscGame-v0."""

    num_repetitions: int = setting(1, ge=1, le=MAX_INT)
    """Number of times T that the game is played in an episode, one step each. Observations contain t / T."""


def build(config: Config) -> EnvDefinition:
    return EnvDefinition(
        **game_roster({"player": 2}, 5, spaces.Box(-1.0, 1.0, (2,), np.float32), -1.0, 1.0),
        rules=disc_game.rules(),
        params={"num_repetitions": config.num_repetitions},
        state={"last": (2,)},
        symmetric=True,
        zero_sum=True,
        max_episode_steps=config.num_repetitions,
        time_limit_terminates=True,
        fixed_params=("num_repetitions",),
        draw=draw,
        render_fps=2,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Both last points, and a triangle in the color of the winner whose doubled area is the payoff.
    """
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
    return ["x", "y"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [
        points("own last point, x and y; zeros at the start", "", 1),
        points("the opponent's last point, x and y; zeros at the start", "", 1),
        ObservationBlock("time", "`num_repetitions`"),
    ]
