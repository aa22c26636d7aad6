"""Shared parts of the host files of board games without a view of the opponent's marks."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces

from gpu_envs.definition.chance import Chance
from gpu_envs.definition.environment import WorldView, any_bits, game_roster, integers
from gpu_envs.descriptions import ObservationBlock
from warp_kernels.games.hidden import phantom_boards

REVEAL_TURNS = "reveal-numturns"  # the number of tries is observed
PALE = 0.16
"""Opacity of marks that the viewer of a board does not know."""
FOG = (0.80, 0.81, 0.83)
"""Color of cells that the viewer of a board does not know."""
OBSTYPES = ("reveal-nothing", REVEAL_TURNS)  # values of obstype


def definition_of(cells: int, planes: int, reveal_turns: bool, names: tuple[str, str]) -> dict[str, Any]:
    """Return fields of the definition: parameters, state, agents, spaces, limit.

    Args:
        cells: Number of cells.
        planes: Number of states of a cell in an observation.
        reveal_turns: Whether the number of tries is observed.
        names: Names of the groups, which have one player each: the sides differ, and observations do not tell them.
    """
    limit = phantom_boards.longest(cells)
    bits = any_bits((2,)) if cells == 64 else integers((2,), 0, 2**cells - 1)  # 64 bits have a sign
    width = phantom_boards.observation_width(cells, planes, reveal_turns)
    return {
        **game_roster(dict.fromkeys(names, 1), width, spaces.Discrete(cells)),
        "params": {"win_reward": 1.0},
        "bounds": {"win_reward": (0.0, 1e6)},
        "state": {
            "marks": bits,
            "known": bits,
            "tries": integers((limit,), 0, 2 * cells - 1),
            "taken": integers((), 0, limit),
            "mover": integers((), -1, 1),
            "winner": integers((), -1, 1),
        },
        "zero_sum": True,
        "max_episode_steps": limit,
        "time_limit_terminates": True,
        "chance": Chance(histories=math.factorial(cells) ** 2),  # each player tries the cells in any order
        "render_fps": 2,
    }


def boards_of(core: WorldView, envs: torch.Tensor, cells: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the marks of both players, and the cells that each knows, (W, 2, N) bool each."""
    index = torch.arange(cells, device=core.device)
    marks, revealed = (core.world_state[name][envs] for name in ("marks", "known"))
    return ((marks[..., None] >> index) & 1).bool(), ((revealed[..., None] >> index) & 1).bool()


def opacity_of(marks: torch.Tensor, revealed: torch.Tensor, viewer: int, owner: int) -> torch.Tensor:
    """Return the opacity (W, N) of a player's marks on the board of a viewer: pale where the viewer does not know them.

    Args:
        marks: Marks of both players, (W, 2, N) bool.
        revealed: Cells that each player knows, (W, 2, N) bool.
        viewer: Player whose board is shown.
        owner: Player whose marks are shown.
    """
    return marks[:, owner] * torch.where(revealed[:, viewer], 1.0, PALE)


def tries_block(cells: Sequence[str], reveal_turns: bool) -> ObservationBlock:
    """Return the observation block of the tries in their order.

    Args:
        cells: Names of the cells.
        reveal_turns: Whether the number of the opponent's tries is observed.
    """
    if not reveal_turns:
        return ObservationBlock("every own try, cell one-hot", width=len(cells) ** 2, parts=cells)
    meaning = "every try of both players: its player, and one-hot the cell or that it is unknown"
    parts = ("player", *cells, "unknown")
    return ObservationBlock(meaning, width=(2 * len(cells) - 1) * len(parts), parts=parts)
