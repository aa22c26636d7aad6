"""What the numbers of KuhnPoker-v0 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.games.kuhn_poker import Config
from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"Everyone, two players": ("player_0", {"num_players": 2})}
# Causes of reward.
REWARDS = (
    Reward("player", "the game ends", "-ante"),
    Reward("player", "the game ends, and it has bet", "-bet"),
    Reward("winner", "the game ends", "all that has been paid"),
)


def actions() -> list[Table]:
    """The one table."""
    rows = ((0, "pass", "check, or fold where somebody has bet"), (1, "bet", "bet, or call where somebody has bet"))
    return [Table("`Discrete(2)`, as OpenSpiel numbers them", ("index", "action", "is to"), rows)]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return actions()[0].column(1)


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    players = config.num_players

    def story(world, row):
        turn, bets = int(world.state["turn"]), int(world.state["bets"])
        return [flag for t in range(2 * players - 1) for flag in _pass_or_bet(t < turn, bets >> t & 1)]

    return [
        Block("oneself: 1 in one's own place", "", 0, 1, lambda world, row: np.eye(players)[row], players),
        Block(
            "own card: 1 in its place, lowest first",
            "",
            0,
            1,
            lambda world, row: np.eye(players + 1)[world.state["card"][row]],
            players + 1,
        ),
        Block(
            "every action of the game so far (passed, bet)", "", 0, 1, story, 2 * (2 * players - 1), ("passed", "bet")
        ),
    ]


def _pass_or_bet(taken: bool, bold: int) -> tuple[bool, bool]:
    return taken and not bold, taken and bool(bold)
