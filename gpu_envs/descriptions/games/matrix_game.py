"""Observations, actions and rewards of MatrixGame-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.matrix_game import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "The default, two players of two choices": ("player_0", {"payoff": Config().payoff}),
    "Two players of two and three choices, the first": (
        "player_0",
        {"payoff": (((1, -1), (2, 0), (0, 0)), ((0, 3), (-1, 1), (4, -4)))},
    ),
}
# Reward terms, in the order of the documentation page.
REWARDS = (RewardTerm("player", "every step", "its payoff at the joint action"),)


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = ((0, "cooperate", "3 or 0"), (1, "defect", "5 or 1"))
    head = ("index", "meaning in the default game", "payoff if the opponent cooperates or defects")
    return [Table("`Discrete(n_i)` for player i: the index along axis i of `payoff`", head, rows)]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return action_tables()[0].column(1) if np.array_equal(config.table(), Config().table()) else ()


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    *counts, players = config.table().shape

    def last_of(player: int):
        def read(world, row):
            last = world.state["last"][player]
            return np.arange(counts[player]) == last

        return read

    order = [(row + further) % players for further in range(players)]
    own, *others = order
    return [
        ObservationBlock("own last choice, one-hot; zeros at the start", "", 0, 1, last_of(own), counts[own]),
        *(
            ObservationBlock(
                f"last choice of the player {further} rows further, one-hot; zeros at the start"
                if further > 1
                else "last choice of the next player, one-hot; zeros at the start",
                "",
                0,
                1,
                last_of(p),
                counts[p],
            )
            for further, p in enumerate(others, start=1)
        ),
        ObservationBlock("time", "`num_repetitions`", 0, 1, lambda world, row: world.time),
    ]
