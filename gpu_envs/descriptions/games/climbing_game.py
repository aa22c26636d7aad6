"""Observations, actions and rewards of ClimbingGame-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.climbing_game import CLIMBING, Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Any player": ("player_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (RewardTerm("player", "at the end, for both players", "the table's payoff at the joint action"),)


def action_tables() -> list[Table]:
    """Return the payoff table; `player_0` chooses the row."""
    rows = tuple((row, *(f"{CLIMBING[3 * row + column]:g}" for column in range(3))) for row in range(3))
    head = ("index of `player_0`", "`player_1` 0", "`player_1` 1", "`player_1` 2")
    return [Table("`Discrete(3)`, and the payoff of both players", head, rows)]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return [f"{('row', 'column')[row]} {index}" for index in range(3)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    return [
        ObservationBlock(
            "own row, one-hot",
            "",
            0,
            1,
            lambda world, row: np.arange(2) == row,
            2,
            ("player_0", "player_1"),
        )
    ]
