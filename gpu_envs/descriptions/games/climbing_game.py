"""What the numbers of ClimbingGame-v0 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.games.climbing_game import CLIMBING, Config
from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"Everyone": ("player_0", {})}
# Causes of reward.
REWARDS = (Reward("player", "at the end, both alike", "the table's payoff at the joint action"),)


def actions() -> list[Table]:
    """The one table: `player_0` chooses the row."""
    rows = tuple((row, *(f"{CLIMBING[3 * row + column]:g}" for column in range(3))) for row in range(3))
    head = ("index of `player_0`", "`player_1` 0", "`player_1` 1", "`player_1` 2")
    return [Table("`Discrete(3)`, and what both earn in the climbing game", head, rows)]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return [f"{('row', 'column')[row]} {index}" for index in range(3)]


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    return [
        Block(
            "1 in one's own place: player 0, player 1",
            "",
            0,
            1,
            lambda world, row: np.arange(2) == row,
            2,
            ("player_0", "player_1"),
        )
    ]
