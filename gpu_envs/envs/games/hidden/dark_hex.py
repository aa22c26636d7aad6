"""DarkHex-v0 (2 agents): Hex with hidden stones."""

import math
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
from gpu_envs.envs.games.scene import FELT, GOLD, PAPER, cells, nowhere
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import DARK, Scene, circles, join, lines
from gpu_envs.utils.settings import setting
from warp_kernels.games.hidden import dark_hex, phantom_boards

GROUPS = ("black", "white")  # of player 0 and player 1
MOST_SIDE = phantom_boards.MOST_CELLS // 2  # longest side of a board


@dataclass(frozen=True)
class Config:
    """Settings of DarkHex-v0, with the names and defaults of OpenSpiel."""

    board_size: int = setting(3, ge=2, le=MOST_SIDE)
    """Number of rows and of columns that are not set."""
    num_rows: int | None = setting(None, ge=2, le=MOST_SIDE)
    """Number of rows; None: `board_size`. The board has at most 64 cells."""
    num_cols: int | None = setting(None, ge=2, le=MOST_SIDE)
    """Number of columns; None: `board_size`."""
    obstype: str = setting(OBSTYPES[0], choices=OBSTYPES)
    """Information on the opponent's tries: none, or their number."""
    gameversion: str = setting("cdh", choices=("cdh", "adh"))
    """Consequence of a try of an occupied cell: another try of the same player (classical, "cdh"), or the opponent's
    turn (abrupt, "adh")."""


def sizes_of(config: Config) -> tuple[int, int]:
    """Return the numbers of rows and columns.

    Raises:
        ConfigError: The board has more cells than the rules can store.
    """
    rows, columns = config.num_rows or config.board_size, config.num_cols or config.board_size
    if rows * columns > phantom_boards.MOST_CELLS:
        raise ConfigError(
            f"expected num_rows * num_cols <= {phantom_boards.MOST_CELLS}, got {rows} * {columns}; use a smaller board"
        )
    return rows, columns


def build(config: Config) -> EnvDefinition:
    """Build the environment definition.

    Raises:
        ConfigError: The board has more cells than the rules can store.
    """
    (rows, columns), reveal_turns = sizes_of(config), config.obstype == REVEAL_TURNS
    return EnvDefinition(
        rules=dark_hex.rules(rows, columns, reveal_turns, config.gameversion == "adh"),
        draw=draw,
        **definition_of(rows * columns, dark_hex.PLANES, reveal_turns, GROUPS),
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    The board as black (player 0) knows it above, as white (player 1) knows it below. Unknown cells are gray, unknown
    stones pale. Bars show the sides that each player connects; the dot on the left marks the player to act.
    """
    rows, columns = sizes_of(core.config)
    marks, revealed = boards_of(core, envs, rows * columns)
    grid = cells(rows, columns, core.device) - 0.5
    high = math.sqrt(3.0) / 2.0
    board = torch.stack([grid[..., 0] + 0.5 * grid[..., 1], -high * grid[..., 1]], -1).expand(len(envs), -1, -1)
    wide, tall = columns - 1 + 0.5 * (rows - 1), high * (rows - 1)
    colors = torch.tensor((PAPER, FOG), device=core.device)
    corner = torch.tensor([math.pi / 6.0 + math.pi / 3.0 * k for k in range(7)], device=core.device)
    corners = torch.stack([corner.cos(), corner.sin()], -1) / math.sqrt(3.0)
    lean = 0.5 * (rows - 1)
    # ends of the bars: top, bottom, left, right, each from one end to the other
    bars = torch.tensor(
        [
            [[-0.5, 0.8], [columns - 0.5, 0.8]],
            [[lean - 0.5, -tall - 0.8], [lean + columns - 0.5, -tall - 0.8]],
            [[-1.0, 0.3], [lean - 1.0, -tall - 0.3]],
            [[columns, 0.3], [lean + columns, -tall - 0.3]],
        ],
        device=core.device,
    )
    inks = torch.tensor((DARK, DARK, PAPER, PAPER), device=core.device)
    assert core.to_move is not None
    parts = []
    for viewer in range(2):
        shift = torch.tensor([0.0, -viewer * (tall + 2.5)], device=core.device)
        places = board + shift
        to_move = (core.to_move[envs, viewer] & core.alive[envs, viewer])[:, None]
        ends = (bars + shift).expand(len(envs), -1, -1, -1)
        parts += [
            lines(ends[:, :, 0], ends[:, :, 1], 0.2, inks),
            circles(places, 0.52, colors[(~revealed[:, viewer]).long()]),
        ]
        for side in range(6):
            parts.append(lines(places + corners[side], places + corners[side + 1], 0.05, DARK))
        for owner, ink in enumerate((DARK, (1.0, 1.0, 1.0))):
            alpha = opacity_of(marks, revealed, viewer, owner)
            parts += [circles(places, 0.37, DARK, alpha), circles(places, 0.32, ink, alpha)]
        mark = torch.tensor([[[-1.0, -tall]]], device=core.device).expand(len(envs), -1, -1) + shift
        ink = (DARK, PAPER)[viewer]
        parts += [circles(mark, 0.46, GOLD, to_move), circles(mark, 0.32, ink)]
    bounds = (-1.6, -2 * tall - 3.6, wide + 1.4, 1.1)
    return Scene(join(*parts), bounds, background=FELT, border=None, agents=nowhere(2, envs))


def action_names(config: Config, row: int) -> list[str]:
    rows, columns = sizes_of(config)
    return [f"row {y}, column {x}" for y in range(rows) for x in range(columns)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    stones = (
        "white, wins",
        "unused",
        "unused",
        "white",
        "empty or unknown",
        "black",
        "unused",
        "unused",
        "black, wins",
    )
    cells = action_names(config, row)
    meanings = [f"{cells[0]}, one-hot: {'; '.join(stones)}", *(f"{cell}, likewise" for cell in cells[1:])]
    return [*(flags(meaning, stones) for meaning in meanings), tries_block(cells, config.obstype == REVEAL_TURNS)]
