"""RockPaperScissors-v0 on the host: settings, agents, spaces. Rules: ``warp_kernels/games/rock_paper_scissors.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from gymnasium import spaces

from gpu_envs.config import setting
from gpu_envs.definition import Definition, box
from warp_kernels.games import rock_paper_scissors

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene

AGENTS = ("player_0", "player_1")  # in the order of rows


@dataclass(frozen=True)
class Config:
    """Settings of RockPaperScissors-v0."""

    num_steps: int = setting(10, low=1)
    """Steps of an episode, T; 1 is the one-shot game. The observation tells t / T."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    return Definition(
        rules=rock_paper_scissors.rules(),
        params={"num_steps": config.num_steps, "win_reward": 1.0},
        state={"last": (2,)},
        agents=AGENTS,
        groups={"player": (0, 1)},
        roles={agent: (agent,) for agent in AGENTS},
        symmetric=True,
        zero_sum=True,
        observation_spaces={agent: box(7, 0.0, 1.0) for agent in AGENTS},
        action_spaces={agent: spaces.Discrete(3) for agent in AGENTS},
        max_steps=config.num_steps,
        limit_terminates=True,
        fixed_params=("num_steps",),
        draw=draw,
        render_fps=2,
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: the table as a heat map, a stripe a player; the last joint action is framed."""
    from gpu_envs.games.drawing import heat_map, nowhere
    from gpu_envs.rendering import Scene

    choice = torch.arange(3, device=core.device)
    lead = (choice[:, None] - choice) % 3  # 1: the row wins
    gain = ((lead == 1).float() - (lead == 2).float()).flatten()
    table = torch.stack([gain, -gain], -1).expand(len(envs), -1, -1)
    shapes, bounds = heat_map(table, (3, 3), core.world_state["last"][envs])
    return Scene(shapes, bounds, border=None, agents=nowhere(2, envs))
