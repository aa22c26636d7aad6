"""RockPaperScissors-v0 on the host: settings, agents, spaces. Rules: ``warp_kernels/games/rock_paper_scissors.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from gymnasium import spaces

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition, box, integers
from warp_kernels.games import rock_paper_scissors

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene

AGENTS = ("player_0", "player_1")  # in the order of rows


@dataclass(frozen=True)
class Config:
    """Settings of RockPaperScissors-v0."""

    num_steps: int = setting(10, low=1, high=MAX_INT)
    """Steps of an episode, T; 1 is the one-shot game. The observation tells t / T."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    return Definition(
        rules=rock_paper_scissors.rules(),
        params={"num_steps": config.num_steps, "win_reward": 1.0},
        state={"last": integers((2,), -1, 2)},
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
    """Scene of some worlds: the table as a heat map, a stripe a player; the last joint action is framed.

    Before rows and over columns a stone, a sheet and an X stand for rock, paper and scissors.
    """
    from gpu_envs.games.drawing import PAPER, heat_map, nowhere
    from gpu_envs.rendering import DARK, GREY, Scene, boxes, circles, join, lines

    choice = torch.arange(3, device=core.device)
    lead = (choice[:, None] - choice) % 3  # 1: the row wins
    gain = ((lead == 1).float() - (lead == 2).float()).flatten()
    table = torch.stack([gain, -gain], -1).expand(len(envs), -1, -1)
    shapes, (_, low, high, _) = heat_map(table, (3, 3), core.world_state["last"][envs])
    signs = torch.tensor([[[-0.35, 2.5 - sign], [sign + 0.5, 3.35]] for sign in range(3)], device=core.device)
    sheet, blade = torch.tensor([0.16, 0.21]), torch.tensor([0.17, 0.19], device=core.device)
    marks = [circles(signs[:1], 0.21, GREY), boxes(signs[1:2], sheet, PAPER)]
    marks += [boxes(signs[1:2], sheet, DARK, line_width=0.035), circles(signs[:1], 0.21, DARK, line_width=0.035)]
    for arm in (blade, blade * torch.tensor([1.0, -1.0], device=core.device)):
        marks.append(lines(signs[2:] - arm, signs[2:] + arm, 0.07, DARK))
    return Scene(join(shapes, *marks), (-0.7, low, high, 3.7), border=None, agents=nowhere(2, envs))
