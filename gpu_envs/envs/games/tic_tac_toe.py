"""TicTacToe-v0 (2 agents): Three marks in a row."""

from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.chance import NO_CHANCE
from gpu_envs.definition.environment import EnvDefinition, WorldView, game_roster, integers
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import cells, marked, nowhere, turn_border
from gpu_envs.rendering.scene import BLUE, DARK, RED, Scene, join, lines, rings
from warp_kernels.games import tic_tac_toe


@dataclass(frozen=True)
class Config:
    """TicTacToe-v0 has no settings."""


def build(config: Config) -> EnvDefinition:
    return EnvDefinition(
        **game_roster({"player": 2}, 19, spaces.Discrete(9)),
        rules=tic_tac_toe.rules(),
        params={"win_reward": 1.0},
        bounds={"win_reward": (0.0, 1e6)},
        state={"marks": integers((2,), 0, 2**11 - 1), "mover": integers((), -1, 1)},
        zero_sum=True,
        max_episode_steps=9,  # the number of cells
        time_limit_terminates=True,
        chance=NO_CHANCE,
        draw=draw,
        render_fps=2,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Player 0's crosses red, 1's rings blue; the border shows the player to act. Row 0 is on top.
    """
    crosses, noughts = marked(core.world_state["marks"][envs], 3, 3).unbind(1)
    places = cells(3, 3, core.device)
    places = torch.stack([places[..., 0], 3.0 - places[..., 1]], -1).expand(len(envs), -1, -1)
    ends = torch.tensor([[1.0, 0.15], [2.0, 0.15], [0.15, 1.0], [0.15, 2.0]], device=core.device)
    far = torch.tensor([[1.0, 2.85], [2.0, 2.85], [2.85, 1.0], [2.85, 2.0]], device=core.device)
    parts = [lines(ends.expand(len(envs), -1, -1), far.expand(len(envs), -1, -1), 0.05, DARK)]
    for tilt in (1.0, -1.0):
        reach = torch.tensor([0.26, 0.26 * tilt], device=core.device)
        parts.append(lines(places - reach, places + reach, 0.13, RED, alpha=crosses))
    parts.append(rings(places, 0.28, BLUE, 0.13, alpha=noughts))
    bounds = (0.0, 0.0, 3.0, 3.0)
    parts.append(turn_border(core, envs, bounds, (RED, BLUE)))
    return Scene(join(*parts), bounds, border=None, agents=nowhere(2, envs))


def action_names(config: Config, row: int) -> list[str]:
    rows, columns = ("top", "middle", "bottom"), ("left", "middle", "right")
    return [f"{y} row, {x} column" for y in rows for x in columns]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    order = "row by row from the top: 1 where present, else 0"
    return [
        flags(f"own marks, {order}", action_names(config, row)),
        flags(f"the opponent's marks, {order}", action_names(config, row)),
        ObservationBlock("1 if it is the agent's turn, else 0"),
    ]
