"""Observations, actions and rewards of TicTacToe-v0."""

from collections.abc import Sequence
from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.tic_tac_toe import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Any player": ("player_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("player", "its mark completes a line", "win_reward"),
    RewardTerm("player", "the opponent's mark completes a line", "-win_reward"),
)
# Rows and columns of the board.
DOWN, ACROSS = ("top", "middle", "bottom"), ("left", "middle", "right")


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = tuple((3 * y + x, f"{DOWN[y]} row, {ACROSS[x]} column") for y in range(3) for x in range(3))
    return [Table("`Discrete(9)`: the cell that the player to act marks", ("index", "where"), rows)]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return action_tables()[0].column(1)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def marks(player: int):
        def read(world, row):
            bits = int(world.state["marks"][player])
            return [bits >> (4 * x + y) & 1 for y in range(3) for x in range(3)]

        return read

    cells = action_tables()[0].column(1)
    order = "row by row from the top: 1 where present, else 0"
    return [
        ObservationBlock(f"own marks, {order}", "", 0, 1, marks(row), 9, cells),
        ObservationBlock(f"the opponent's marks, {order}", "", 0, 1, marks(1 - row), 9, cells),
        ObservationBlock(
            "1 if it is the agent's turn, else 0", "", 0, 1, lambda world, row: world.state["mover"] == row
        ),
    ]
