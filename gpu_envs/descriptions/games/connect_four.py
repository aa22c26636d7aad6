"""Observations, actions and rewards of ConnectFour-v0."""

from collections.abc import Sequence
from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.connect_four import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Any player": ("player_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("player", "its disc completes a line", "win_reward"),
    RewardTerm("player", "the opponent's disc completes a line", "-win_reward"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = tuple((column, f"column {column}" + (", the leftmost" if column == 0 else "")) for column in range(7))
    return [Table("`Discrete(columns)`: the column of the disc of the player to act", ("index", "where"), rows)]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return [f"column {column}" for column in range(config.columns)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    high, wide = config.rows, config.columns

    def discs(player: int):
        def read(world, row):
            bits = int(world.state["marks"][player])
            return [bits >> (x * (high + 1) + y) & 1 for y in range(high) for x in range(wide)]

        return read

    cells = tuple(f"row {y}, column {x}" for y in range(high) for x in range(wide))
    order = "row by row from the bottom: 1 where present, else 0"
    return [
        ObservationBlock(f"own discs, {order}", "", 0, 1, discs(row), high * wide, cells),
        ObservationBlock(f"the opponent's discs, {order}", "", 0, 1, discs(1 - row), high * wide, cells),
        ObservationBlock(
            "1 if it is the agent's turn, else 0", "", 0, 1, lambda world, row: world.state["mover"] == row
        ),
    ]
