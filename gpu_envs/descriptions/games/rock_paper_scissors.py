"""What the numbers of RockPaperScissors-v0 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.games.rock_paper_scissors import Config
from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"Everyone": ("player_0", {})}
# Causes of reward.
REWARDS = (
    Reward("player", "every step its choice beats the other's", "win_reward"),
    Reward("player", "every step its choice is beaten", "-win_reward"),
)


def actions() -> list[Table]:
    """The one table."""
    rows = ((0, "rock", "scissors"), (1, "paper", "rock"), (2, "scissors", "paper"))
    return [Table("`Discrete(3)`", ("index", "choice", "beats"), rows)]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return actions()[0].column(1)


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""

    def last_of(player: int):
        return lambda world, row: np.arange(3) == world.state["last"][player]

    names = actions()[0].column(1)
    return [
        Block("own last choice: 1 in its place; zeros at the start", "", 0, 1, last_of(row), 3, names),
        Block("the other's last choice, likewise", "", 0, 1, last_of(1 - row), 3, names),
        Block("time", "`num_steps`", 0, 1, lambda world, row: world.time),
    ]
