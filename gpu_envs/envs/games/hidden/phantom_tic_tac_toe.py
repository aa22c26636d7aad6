"""PhantomTicTacToe-v0 (2 agents): Tic-tac-toe with hidden marks."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.hidden.phantom import (
    FOG,
    OBSTYPES,
    REVEAL_TURNS,
    boards_of,
    definition_of,
    opacity_of,
    tries_block,
)
from gpu_envs.envs.games.scene import PAPER, cells, nowhere
from gpu_envs.rendering.scene import BLUE, DARK, RED, Scene, boxes, join, lines, rings
from gpu_envs.utils.settings import setting
from warp_kernels.games.hidden import phantom_tic_tac_toe

GROUPS = ("cross", "nought")  # of player 0 and player 1


@dataclass(frozen=True)
class Config:
    """Settings of PhantomTicTacToe-v0, with the names and defaults of OpenSpiel."""

    obstype: str = setting(OBSTYPES[0], choices=OBSTYPES)
    """Information on the opponent's tries: none, or their number."""
    gameversion: str = setting("classical", choices=("classical", "abrupt"))
    """Consequence of a try of an occupied cell: another try of the same player ("classical") or the opponent's turn
    ("abrupt")."""


def build(config: Config) -> EnvDefinition:
    reveal_turns = config.obstype == REVEAL_TURNS
    cells, planes = phantom_tic_tac_toe.CELLS, phantom_tic_tac_toe.PLANES
    return EnvDefinition(
        rules=phantom_tic_tac_toe.rules(reveal_turns, config.gameversion == "abrupt"),
        draw=draw,
        **definition_of(cells, planes, reveal_turns, GROUPS),
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    The board as player 0 (red crosses) knows it on the left, as player 1 (blue rings) knows it on the right. Unknown
    cells are gray, unknown marks pale; the border of a board shows that its player is to act. Row 0 is on top.
    """
    marks, revealed = boards_of(core, envs, phantom_tic_tac_toe.CELLS)
    board = cells(3, 3, core.device)
    board = torch.stack([board[..., 0], 3.0 - board[..., 1]], -1).expand(len(envs), -1, -1)
    colors = torch.tensor((PAPER, FOG), device=core.device)
    assert core.to_move is not None
    parts = []
    for viewer, tint in enumerate((RED, BLUE)):
        places = board + torch.tensor([3.5 * viewer, 0.0], device=core.device)
        center = places.mean(1, keepdim=True)
        to_move = (core.to_move[envs, viewer] & core.alive[envs, viewer])[:, None]
        parts += [
            boxes(center, 1.6, DARK),
            boxes(center, 1.6, tint, to_move, 0.16),
            boxes(places, 0.475, colors[(~revealed[:, viewer]).long()]),
        ]
        alpha = opacity_of(marks, revealed, viewer, 0)
        for tilt in (1.0, -1.0):
            reach = torch.tensor([0.26, 0.26 * tilt], device=core.device)
            parts.append(lines(places - reach, places + reach, 0.13, RED, alpha))
        parts.append(rings(places, 0.28, BLUE, 0.13, opacity_of(marks, revealed, viewer, 1)))
    return Scene(join(*parts), (-0.2, -0.2, 6.7, 3.2), border=None, agents=nowhere(2, envs))


def action_names(config: Config, row: int) -> list[str]:
    return [f"{y} {x}" for y in ("top", "middle", "bottom") for x in ("left", "center", "right")]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    cells, planes = action_names(config, row), ("cells without a known mark", "known noughts", "known crosses")
    tries = tries_block(cells, config.obstype == REVEAL_TURNS)
    return [*(flags(f"{plane}, row by row", cells) for plane in planes), tries]
