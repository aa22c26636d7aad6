"""Observations, actions and rewards of LeducPoker-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.leduc_poker import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Any player": ("player_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("winner", "the game ends", "the chips paid by the opponent"),
    RewardTerm("loser", "the game ends", "-(the chips it paid)"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = (
        (0, "fold", "if the opponent has raised"),
        (1, "call", "always; a check if there is nothing to call"),
        (2, "raise", "until two raises in a round"),
    )
    return [Table("`Discrete(3)`, as OpenSpiel numbers them", ("index", "action", "legal"), rows)]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return action_tables()[0].column(1)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def public(world, row):
        return np.eye(6)[world.state["card"][2]] * (world.state["round"] == 1)

    def story(number: int):
        return lambda world, row: [int(world.state["story"][number]) >> index & 1 for index in range(8)]

    return [
        ObservationBlock("own seat, one-hot", "", 0, 1, lambda world, row: np.eye(2)[row], 2),
        ObservationBlock(
            "own card, one-hot, lowest rank first, two suits per rank",
            "",
            0,
            1,
            lambda world, row: np.eye(6)[world.state["card"][row]],
            6,
        ),
        ObservationBlock("public card, one-hot in the same order; zeros in the first round", "", 0, 1, public, 6),
        ObservationBlock(
            "every action of the first round (called, raised)", "", 0, 1, story(0), 8, ("called", "raised")
        ),
        ObservationBlock(
            "every action of the second round (called, raised)", "", 0, 1, story(1), 8, ("called", "raised")
        ),
    ]
