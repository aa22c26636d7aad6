"""Observations, actions and rewards of TwoStepGame-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.two_step_game import PAYOFFS, Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Any player": ("player_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("player", "in the second step, in table A", "payoff_a"),
    RewardTerm("player", "in the second step, in table B, if both choose 0", "payoff_b_00"),
    RewardTerm("player", "in the second step, in table B, if only player 1 chooses 1", "payoff_b_01"),
    RewardTerm("player", "in the second step, in table B, if only player 0 chooses 1", "payoff_b_10"),
    RewardTerm("player", "in the second step, in table B, if both choose 1", "payoff_b_11"),
)


def action_tables() -> list[Table]:
    """Return the actions of the first step and the payoffs of the second."""
    a, b = f"{PAYOFFS['payoff_a']:g}", [f"{PAYOFFS[f'payoff_b_{cell}']:g}" for cell in ("00", "01", "10", "11")]
    head = (
        "index",
        "`player_0` in the first step",
        "in table A",
        "in table B, `player_1` 0",
        "in table B, `player_1` 1",
    )
    rows = ((0, "to table A", a, b[0], b[1]), (1, "to table B", a, b[2], b[3]))
    return [
        Table("`Discrete(2)`, and the payoff of both players in the second step by the index of `player_0`", head, rows)
    ]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return () if row else ("0 (table A)", "1 (table B)")


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def stage(world, row):
        index = world.state["table"] + 1 if world.state["last"][0] < 0 else -1
        return np.arange(3) == index

    return [
        ObservationBlock(
            "stage of the game, one-hot: choose a table, table A, table B; zeros after the end",
            "",
            0,
            1,
            stage,
            3,
            ("to choose", "in A", "in B"),
        ),
        ObservationBlock(
            "own row, one-hot",
            "",
            0,
            1,
            lambda world, row: np.arange(2) == row,
            2,
            ("player_0", "player_1"),
        ),
    ]
