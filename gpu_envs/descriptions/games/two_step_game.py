"""What the numbers of TwoStepGame-v0 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.games.two_step_game import PAYOFFS, Config
from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"Everyone": ("player_0", {})}
# Causes of reward.
REWARDS = (
    Reward("player", "in the second step, in table A", "payoff_a"),
    Reward("player", "in the second step, in table B, where both choose 0", "payoff_b_00"),
    Reward("player", "in table B, where only player 1 chooses 1", "payoff_b_01"),
    Reward("player", "in table B, where only player 0 chooses 1", "payoff_b_10"),
    Reward("player", "in table B, where both choose 1", "payoff_b_11"),
)


def actions() -> list[Table]:
    """The first step, and both tables of the second."""
    a, b = f"{PAYOFFS['payoff_a']:g}", [f"{PAYOFFS[f'payoff_b_{cell}']:g}" for cell in ("00", "01", "10", "11")]
    head = (
        "index",
        "`player_0` in the first step",
        "in table A",
        "in table B, `player_1` 0",
        "in table B, `player_1` 1",
    )
    rows = ((0, "to table A", a, b[0], b[1]), (1, "to table B", a, b[2], b[3]))
    return [Table("`Discrete(2)`, and what both earn in the second step by the index of `player_0`", head, rows)]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return () if row else ("0 (table A)", "1 (table B)")


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""

    def place(world, row):
        stands = world.state["table"] + 1 if world.state["last"][0] < 0 else -1
        return np.arange(3) == stands

    return [
        Block(
            "1 where the game stands: to choose a table, in A, in B; zeros when it is over",
            "",
            0,
            1,
            place,
            3,
            ("to choose", "in A", "in B"),
        ),
        Block(
            "1 in one's own place: player 0, player 1",
            "",
            0,
            1,
            lambda world, row: np.arange(2) == row,
            2,
            ("player_0", "player_1"),
        ),
    ]
