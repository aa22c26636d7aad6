"""What the numbers of MatrixGame-v0 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.games.matrix_game import Config
from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {
    "The default, two players of two choices": ("player_0", {"payoff": Config().payoff}),
    "Two players of two and three choices, the first": (
        "player_0",
        {"payoff": (((1, -1), (2, 0), (0, 0)), ((0, 3), (-1, 1), (4, -4)))},
    ),
}
# Causes of reward.
REWARDS = (Reward("player", "every step", "its payoff at the joint action"),)


def actions() -> list[Table]:
    """The one table."""
    rows = ((0, "cooperate", "3 or 0"), (1, "defect", "5 or 1"))
    head = ("index", "of the default game", "earns where the other cooperates or defects")
    return [Table("`Discrete(n_i)` for player i: the index along axis i of `payoff`", head, rows)]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return actions()[0].column(1) if np.array_equal(config.table(), Config().table()) else ()


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    *counts, players = config.table().shape

    def last_of(player: int):
        def read(world, row):
            last = world.state["last"][player]
            return np.arange(counts[player]) == last

        return read

    order = [(row + further) % players for further in range(players)]
    own, *others = order
    return [
        Block("own last choice: 1 in its place; zeros at the start", "", 0, 1, last_of(own), counts[own]),
        *(
            Block(
                f"last choice of the player {further} further on, likewise"
                if further > 1
                else "last choice of the next player, likewise",
                "",
                0,
                1,
                last_of(p),
                counts[p],
            )
            for further, p in enumerate(others, start=1)
        ),
        Block("time", "`num_steps`", 0, 1, lambda world, row: world.time),
    ]
