"""Observations, actions and rewards of KuhnPoker-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.kuhn_poker import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Any player, two players": ("player_0", {"num_players": 2})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("player", "the game ends", "-ante"),
    RewardTerm("player", "the game ends, and it has bet", "-bet"),
    RewardTerm("winner", "the game ends", "the pot"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = ((0, "pass", "check, or fold if a player has bet"), (1, "bet", "bet, or call if a player has bet"))
    return [Table("`Discrete(2)`, as OpenSpiel numbers them", ("index", "action", "meaning"), rows)]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return action_tables()[0].column(1)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    players = config.num_players

    def story(world, row):
        turn, bets = int(world.state["turn"]), int(world.state["bets"])
        return [flag for t in range(2 * players - 1) for flag in _pass_or_bet(t < turn, bets >> t & 1)]

    return [
        ObservationBlock("own seat, one-hot", "", 0, 1, lambda world, row: np.eye(players)[row], players),
        ObservationBlock(
            "own card, one-hot, lowest rank first",
            "",
            0,
            1,
            lambda world, row: np.eye(players + 1)[world.state["card"][row]],
            players + 1,
        ),
        ObservationBlock(
            "every action of the game so far (passed, bet)", "", 0, 1, story, 2 * (2 * players - 1), ("passed", "bet")
        ),
    ]


def _pass_or_bet(taken: bool, bold: int) -> tuple[bool, bool]:
    return taken and not bold, taken and bool(bold)
