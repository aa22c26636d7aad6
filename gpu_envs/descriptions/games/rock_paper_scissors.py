"""Observations, actions and rewards of RockPaperScissors-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.rock_paper_scissors import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Any player": ("player_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("player", "every step in which its choice beats the opponent's", "win_reward"),
    RewardTerm("player", "every step in which the opponent's choice beats its own", "-win_reward"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = ((0, "rock", "scissors"), (1, "paper", "rock"), (2, "scissors", "paper"))
    return [Table("`Discrete(3)`", ("index", "choice", "beats"), rows)]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return action_tables()[0].column(1)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def last_of(player: int):
        return lambda world, row: np.arange(3) == world.state["last"][player]

    names = action_tables()[0].column(1)
    return [
        ObservationBlock("own last choice, one-hot; zeros at the start", "", 0, 1, last_of(row), 3, names),
        ObservationBlock(
            "the opponent's last choice, one-hot; zeros at the start", "", 0, 1, last_of(1 - row), 3, names
        ),
        ObservationBlock("time", "`num_repetitions`", 0, 1, lambda world, row: world.time),
    ]
