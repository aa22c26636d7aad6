"""Observations, actions and rewards of LiarsDice-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table
from gpu_envs.envs.games.hidden.liars_dice import Config, quantity_and_face

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Any player": ("player_0", {}),
    "With `numdice=2, dice_sides=4`": ("player_0", {"numdice": 2, "dice_sides": 4}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("winner", "a player calls the last bid a lie", "win_reward"),
    RewardTerm("loser", "a player calls the last bid a lie", "-win_reward"),
)


def _names(config: Config) -> list[str]:
    """Return the names of all bids and of the call."""
    bids = range(config.players * config.numdice * config.dice_sides)
    return [*("bid {} x {}".format(*quantity_and_face(config, bid)) for bid in bids), "liar"]


def action_tables() -> list[Table]:
    """Return the action table of the default settings."""
    names = _names(Config())
    rows = tuple(
        (index, name, "if it is higher than the last bid" if name != "liar" else "after a bid")
        for index, name in enumerate(names)
    )
    return [
        Table("`Discrete(13)` with default settings, as OpenSpiel numbers them", ("index", "action", "legal"), rows)
    ]


def action_names(config: Config, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return _names(config)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    count, sides = config.numdice, config.dice_sides
    names = _names(config)

    def die(place: int):
        return lambda world, row: np.eye(sides)[world.state["dice"][row * count + place] - 1]

    def bids(world, row):
        return [int(world.state["bids"]) >> bid & 1 for bid in range(len(names))]

    order = "" if count == 1 else ", lowest first"
    dice = [
        ObservationBlock(f"own die {place}, face one-hot{order}" if count > 1 else "own die, face one-hot", "", 0, 1,
                         die(place), sides, tuple(str(face) for face in range(1, sides + 1)))
        for place in range(count)
    ]  # fmt: skip
    return [
        ObservationBlock("own seat, one-hot", "", 0, 1, lambda world, row: np.eye(2)[row], 2),
        *dice,
        ObservationBlock("bids so far and the call, in the order of actions", "", 0, 1, bids, len(names), names),
    ]
