"""What the page of ClimbingGame-v0 says about numbers."""

import numpy as np

from docs.claims import Block, Reward, Table
from gpu_envs.games.climbing_game import CLIMBING, Config

OBSERVATIONS = {"Everyone": ("player_0", {})}
REWARDS = (Reward("player", "at the end, both alike", "the table's payoff at the joint action"),)


def actions() -> list[Table]:
    """The one table: `player_0` chooses the row."""
    rows = tuple((row, *(f"{CLIMBING[3 * row + column]:g}" for column in range(3))) for row in range(3))
    head = ("index of `player_0`", "`player_1` 0", "`player_1` 1", "`player_1` 2")
    return [Table("`Discrete(3)`, and what both earn in the climbing game", head, rows)]


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    return [Block("1 in one's own place: player 0, player 1", "", 0, 1, lambda world, row: np.arange(2) == row, 2)]
