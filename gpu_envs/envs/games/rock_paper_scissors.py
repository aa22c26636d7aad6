"""RockPaperScissors-v0 (2 agents): Rock-paper-scissors, played repeatedly."""

from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.chance import NO_CHANCE
from gpu_envs.definition.environment import EnvDefinition, WorldView, game_roster, integers
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import PAPER, heat_map, nowhere
from gpu_envs.rendering.scene import DARK, GRAY, Scene, boxes, circles, join, lines
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.games import rock_paper_scissors


@dataclass(frozen=True)
class Config:
    """Settings of RockPaperScissors-v0."""

    num_repetitions: int = setting(10, ge=1, le=MAX_INT)
    """Number of times T that the game is played in an episode, one step each. Observations contain t / T."""


def build(config: Config) -> EnvDefinition:
    return EnvDefinition(
        **game_roster({"player": 2}, 7, spaces.Discrete(3)),
        rules=rock_paper_scissors.rules(),
        params={"num_repetitions": config.num_repetitions, "win_reward": 1.0},
        state={"last": integers((2,), -1, 2)},
        symmetric=True,
        zero_sum=True,
        max_episode_steps=config.num_repetitions,
        time_limit_terminates=True,
        fixed_params=("num_repetitions",),
        chance=NO_CHANCE,
        draw=draw,
        render_fps=2,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    The table as a heat map with a stripe per player and a frame around the last joint action.
    Symbols for rock (stone), paper (sheet) and scissors (X) label the rows and columns.
    """
    choice = torch.arange(3, device=core.device)
    lead = (choice[:, None] - choice) % 3  # 1: the row wins
    gain = ((lead == 1).float() - (lead == 2).float()).flatten()
    table = torch.stack([gain, -gain], -1).expand(len(envs), -1, -1)
    shapes, (_, low, high, _) = heat_map(table, (3, 3), core.world_state["last"][envs])
    signs = torch.tensor([[[-0.35, 2.5 - sign], [sign + 0.5, 3.35]] for sign in range(3)], device=core.device)
    sheet, blade = torch.tensor([0.16, 0.21]), torch.tensor([0.17, 0.19], device=core.device)
    marks = [circles(signs[:1], 0.21, GRAY), boxes(signs[1:2], sheet, PAPER)]
    marks += [boxes(signs[1:2], sheet, DARK, line_width=0.035), circles(signs[:1], 0.21, DARK, line_width=0.035)]
    for arm in (blade, blade * torch.tensor([1.0, -1.0], device=core.device)):
        marks.append(lines(signs[2:] - arm, signs[2:] + arm, 0.07, DARK))
    return Scene(join(shapes, *marks), (-0.7, low, high, 3.7), border=None, agents=nowhere(2, envs))


def action_names(config: Config, row: int) -> list[str]:
    return ["rock", "paper", "scissors"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    choices = action_names(config, row)
    return [
        flags("own last choice, one-hot; zeros at the start", choices),
        flags("the opponent's last choice, one-hot; zeros at the start", choices),
        ObservationBlock("time", "`num_repetitions`"),
    ]
