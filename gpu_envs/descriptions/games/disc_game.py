"""Observations, actions and rewards of DiscGame-v0."""

from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.disc_game import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Any player": ("player_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("`player_0`", "every step", "x0 y1 - y0 x1, with its point (x0, y0) and the opponent's point (x1, y1)"),
    RewardTerm("`player_1`", "every step", "-(the reward of `player_0`)"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = ((0, "x", "[-1, 1]"), (1, "y", "[-1, 1]"))
    return [Table("`Box(-1, 1, (2,))`", ("component", "of the point", "range"), rows)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def last_of(player: int):
        return lambda world, row: world.state["last"][player]

    return [
        ObservationBlock("own last point, x and y; zeros at the start", "", -1, 1, last_of(row), 2, ("x", "y")),
        ObservationBlock(
            "the opponent's last point, x and y; zeros at the start", "", -1, 1, last_of(1 - row), 2, ("x", "y")
        ),
        ObservationBlock("time", "`num_repetitions`", 0, 1, lambda world, row: world.time),
    ]
