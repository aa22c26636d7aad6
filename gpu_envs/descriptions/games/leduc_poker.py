"""What the numbers of LeducPoker-v0 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.games.leduc_poker import Config
from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"Everyone": ("player_0", {})}
# Causes of reward.
REWARDS = (
    Reward("winner", "the game ends", "what the other has paid"),
    Reward("loser", "the game ends", "-what it has paid"),
)


def actions() -> list[Table]:
    """The one table."""
    rows = (
        (0, "fold", "where there is something to pay"),
        (1, "call", "always; checks where there is nothing to pay"),
        (2, "raise", "twice a round"),
    )
    return [Table("`Discrete(3)`, as OpenSpiel numbers them", ("index", "action", "legal"), rows)]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return actions()[0].column(1)


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""

    def public(world, row):
        return np.eye(6)[world.state["card"][2]] * (world.state["round"] == 1)

    def story(number: int):
        return lambda world, row: [int(world.state["story"][number]) >> index & 1 for index in range(8)]

    return [
        Block("oneself: 1 in one's own place", "", 0, 1, lambda world, row: np.eye(2)[row], 2),
        Block(
            "own card: 1 in its place; two suits of the lowest rank first",
            "",
            0,
            1,
            lambda world, row: np.eye(6)[world.state["card"][row]],
            6,
        ),
        Block("public card, likewise; zeros in the first round", "", 0, 1, public, 6),
        Block("every action of the first round (called, raised)", "", 0, 1, story(0), 8, ("called", "raised")),
        Block("every action of the second round (called, raised)", "", 0, 1, story(1), 8, ("called", "raised")),
    ]
