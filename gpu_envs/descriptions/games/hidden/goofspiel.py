"""Observations, actions and rewards of Goofspiel-v0."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.games.hidden.goofspiel import Config, sizes_of

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Any player": ("player_0", {}),
    "With `num_cards=5, imp_info=True`": ("player_0", {"num_cards": 5, "imp_info": True}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("players with the most points", '`returns_type="win_loss"`, the game ends', "1 / (number of winners)"),
    RewardTerm("the others", '`returns_type="win_loss"`, the game ends', "-1 / (number of losers)"),
    RewardTerm("any", '`returns_type="point_difference"`, the game ends', "own points - mean points"),
    RewardTerm("any", '`returns_type="total_points"`, the game ends', "own points"),
)


def action_tables() -> list[Table]:
    """Return the action table of the default settings."""
    rows = tuple((card, f"bid {card + 1}", "while the card is in the hand") for card in range(Config().num_cards))
    return [Table("`Discrete(13)` with default settings, numbered as in OpenSpiel", ("index", "action", "legal"), rows)]


def action_names(config: Config, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return [f"bid {card + 1}" for card in range(config.num_cards)]


def _hand(world: World, player: int, count: int) -> list[int]:
    return [int(world.state["hand"][player]) >> card & 1 for card in range(count)]


def _by_turn(cards: Callable[[World, int], Any], width: int) -> Callable[[World, int], np.ndarray]:
    """Return a reader of one-hot rows by turn; -1 is a row of zeros."""

    def read(world: World, row: int) -> np.ndarray:
        wanted = np.asarray(cards(world, row))
        return np.concatenate([np.arange(width) == card for card in wanted]).astype(float)

    return read


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    s = sizes_of(config)
    count, turns, players = s.num_cards, s.num_turns, s.players
    slots = count * (count + 1) // 2 + 1
    names = [str(card + 1) for card in range(count)]
    places = ["own", *(f"opponent {place}" if players > 2 else "opponent's" for place in range(1, players))]

    def player(place: int) -> Callable[[int], int]:
        return lambda row: (row + place) % players

    def points(place: int) -> Callable[[World, int], np.ndarray]:
        return lambda world, row: np.eye(slots)[world.state["points"][player(place)(row)]]

    def hand(place: int) -> Callable[[World, int], list[int]]:
        return lambda world, row: _hand(world, player(place)(row), count)

    def order(world: World, row: int) -> np.ndarray:
        return np.where(np.arange(turns) <= world.state["turn"], world.state["order"], -1)

    def winners(world: World, row: int) -> np.ndarray:
        found = world.state["winner"]
        return np.where(found < 0, -1, (found - row) % players) if s.egocentric else found

    won = [str(slot) for slot in range(slots)]
    blocks = [
        ObservationBlock(f"{who} points, one-hot", "", 0, 1, points(place), slots, won)
        for place, who in enumerate(places)
    ]
    sequence = ObservationBlock(
        "point cards so far by turn, one-hot", "", 0, 1, _by_turn(order, count), turns * count, names
    )
    if not s.hidden:
        hands = [
            ObservationBlock(f"{who} cards in hand", "", 0, 1, hand(place), count, names)
            for place, who in enumerate(places)
        ]
        return [*blocks, sequence, *hands]
    whose = "counted from the observing player" if s.egocentric else "by row"
    return [
        *blocks,
        ObservationBlock("own cards in hand", "", 0, 1, hand(0), count, names),
        ObservationBlock(
            f"winner of each turn, one-hot {whose}; zeros for a tie",
            "",
            0,
            1,
            _by_turn(winners, players),
            turns * players,
            [f"player {place}" for place in range(players)],
        ),
        sequence,
        ObservationBlock(
            "own bids by turn, one-hot",
            "",
            0,
            1,
            _by_turn(lambda world, row: world.state["bid"][row], count),
            turns * count,
            names,
        ),
    ]
