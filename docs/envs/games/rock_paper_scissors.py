"""What the page of RockPaperScissors-v0 says about numbers."""

import numpy as np

from docs.claims import Block, Reward, Table
from gpu_envs.games.rock_paper_scissors import Config

OBSERVATIONS = {"Everyone": ("player_0", {})}
REWARDS = (
    Reward("player", "every step its choice beats the other's", "win_reward"),
    Reward("player", "every step its choice is beaten", "-win_reward"),
)


def actions() -> list[Table]:
    """The one table."""
    rows = ((0, "rock", "scissors"), (1, "paper", "rock"), (2, "scissors", "paper"))
    return [Table("`Discrete(3)`", ("index", "choice", "beats"), rows)]


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""

    def last_of(player: int):
        return lambda world, row: np.arange(3) == world.state["last"][player]

    return [
        Block("own last choice: 1 in its place; zeros at the start", "", 0, 1, last_of(row), 3),
        Block("the other's last choice, likewise", "", 0, 1, last_of(1 - row), 3),
        Block("time", "`num_steps`", 0, 1, lambda world, row: world.time),
    ]
