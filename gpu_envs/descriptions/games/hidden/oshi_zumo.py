"""Observations, actions and rewards of OshiZumo-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.hidden.oshi_zumo import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Both players": ("left_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("winner", "the game ends", "win_reward"),
    RewardTerm("loser", "the game ends", "-win_reward"),
)


def action_tables() -> list[Table]:
    """Return the action table of the default settings."""
    legal = "if the player has the coins; below `min_bid` only with all its coins"
    coins = Config().coins
    title = f"`Discrete({coins + 1})` with default settings, numbered as in OpenSpiel"
    return [Table(title, ("index", "action", "legal"), ((f"0 to {coins}", "bid that many coins", legal),))]


def action_names(config: Config, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return [f"bid {bid}" for bid in range(config.coins + 1)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    count, places = config.coins + 1, 2 * config.size + 3

    def coins(player: int):
        return lambda world, row: np.eye(count)[world.state["coins"][player]]

    names = [str(number) for number in range(count)]
    return [
        *(
            ObservationBlock(f"coins of player {player}, one-hot", "", 0, 1, coins(player), count, names)
            for player in range(2)
        ),
        ObservationBlock(
            "position of the wrestler, one-hot",
            "",
            0,
            1,
            lambda world, row: np.eye(places)[world.state["position"]],
            places,
            [str(place) for place in range(places)],
        ),
    ]
