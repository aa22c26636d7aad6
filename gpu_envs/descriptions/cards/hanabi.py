"""Observations, actions and rewards of Hanabi-v0."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.cards.hanabi import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Two players (default)": ("player_0", {}),
    'Five players, `observation_type="minimal"`': ("player_0", {"players": 5, "observation_type": "minimal"}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("all players", "a card is played on its fireworks", "1"),
    RewardTerm("all players", "the last life token is lost, with `keep_score=False`", "-(the score so far)"),
)
COLORS = ("red", "yellow", "green", "white", "blue")
"""Names of the colors."""


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = tuple(
        (index, name, "with fewer than 8 information tokens" if index < 5 else "always" if index < 10 else _HINTS)
        for index, name in enumerate(action_names(Config(), 0))
    )
    return [Table("`Discrete(20)` with two players, as HLE numbers them", ("index", "action", "legal"), rows)]


_HINTS = "with an information token, if a card matches"


def action_names(config: Config, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    sizes = config.sizes
    places, others = range(sizes.hand_size), range(1, sizes.players)
    return [
        *(f"discard card {place}" for place in places),
        *(f"play card {place}" for place in places),
        *(f"tell player +{other} {color}" for other in others for color in COLORS[: sizes.colors]),
        *(f"tell player +{other} rank {rank + 1}" for other in others for rank in range(sizes.ranks)),
    ]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    sizes = config.sizes
    players, hand_size, colors, ranks, cards = sizes.players, sizes.hand_size, sizes.colors, sizes.ranks, sizes.cards
    names = tuple(f"{color} {rank + 1}" for color in COLORS[:colors] for rank in range(ranks))
    hinted = (*COLORS[:colors], *map(str, range(1, ranks + 1)))
    copies = tuple(
        f"{color} {rank + 1}" for color in COLORS[:colors] for rank in range(ranks) for _ in range(sizes.copies(rank))
    )

    def field(name: str, offset: int) -> Callable[[World, int], np.ndarray]:
        """Return the reader of a field of the player at an offset."""
        return lambda world, row: world.state[name][(row + offset) % players].astype(int)

    def hand(offset: int) -> Callable[[World, int], np.ndarray]:
        return lambda world, row: _one_hot(field("hand", offset)(world, row), cards)

    def missing(world: World, row: int) -> list[bool]:
        return [bool((field("hand", offset)(world, row) < 0).any()) for offset in range(players)]

    def thermometer(value: Callable[[World], int], count: int) -> Callable[[World, int], np.ndarray]:
        return lambda world, row: np.arange(count) < value(world)

    def fireworks(world: World, row: int) -> np.ndarray:
        return _one_hot(world.state["fireworks"].astype(int) - 1, ranks)

    def discards(world: World, row: int) -> np.ndarray:
        return _bits(world.state["discards"], sizes.per_color)

    def last(part: str) -> Callable[[World, int], np.ndarray]:
        return lambda world, row: _last_action(config, world, row)[part]

    def knowledge(offset: int) -> Callable[[World, int], np.ndarray]:
        def read(world: World, row: int) -> np.ndarray:
            held = (field("hand", offset)(world, row) >= 0)[:, None]
            possible = _bits(field("plausible", offset)(world, row), cards).reshape(hand_size, -1)
            revealed = _bits(field("revealed", offset)(world, row), colors + ranks).reshape(hand_size, -1)
            return (np.concatenate([possible, revealed], 1) * held).ravel()

        return read

    def block(meaning: str, read: Callable[[World, int], Any], width: int, parts: Sequence[str] = ()):
        return ObservationBlock(meaning, "", 0, 1, read, width, parts)

    seats = ("own", *(f"player +{offset}" for offset in range(1, players)))
    slots = tuple(f"card {place}" for place in range(hand_size))
    blocks = [
        block(f"hand of player +{offset}: each card, one-hot", hand(offset), hand_size * cards, names)
        for offset in range(1, players)
    ]
    blocks.append(block("1 for a player with fewer cards than a full hand", missing, players, seats))
    if sizes.drawn:
        deck = thermometer(lambda world: sizes.deck - int(world.state["dealt"]), sizes.drawn)
        blocks.append(block("cards left in the deck, in unary", deck, sizes.drawn))
    blocks.append(block("highest card of each color's fireworks, one-hot; zeros without one", fireworks, cards, names))
    for name, what, count in (
        ("information", "information", sizes.information_tokens),
        ("lives", "life", sizes.life_tokens),
    ):
        if count:
            tokens = thermometer(lambda world, name=name: int(world.state[name]), count)
            blocks.append(block(f"{what} tokens: as many ones", tokens, count))
    blocks.append(block("discarded cards, in unary for each card", discards, sizes.deck, copies))
    for part, meaning, parts in (
        ("actor", "last action: its player, one-hot; zeros before the first action", seats),
        ("kind", "last action: its kind, one-hot", ("play", "discard", "color hint", "rank hint")),
        ("target", "last action, a hint: the player who received it, one-hot", seats),
        ("value", "last action, a hint: its color or rank, one-hot", hinted),
        ("hinted", "last action, a hint: the cards that match", slots),
        ("place", "last action, a play or discard: place of the card, one-hot", slots),
        ("card", "last action, a play or discard: the card, one-hot", names),
        ("result", "last action, a play: it scored, it returned an information token", ("scored", "token")),
    ):
        blocks.append(block(meaning, last(part), len(parts), parts))
    if config.observation_type != "minimal":
        entries = (*(f"{name} possible" for name in names), *(f"{word} hinted" for word in hinted))
        for offset in range(players):
            whose = "own cards" if offset == 0 else f"cards of player +{offset}"
            meaning = f"knowledge of the {whose}: possible cards by the hints, then the color and the rank hinted"
            blocks.append(block(meaning, knowledge(offset), hand_size * sizes.card_knowledge, entries))
    return blocks


def _one_hot(values: np.ndarray, count: int) -> np.ndarray:
    """Return one-hot rows, joined; zeros for a negative value."""
    return (np.asarray(values)[:, None] == np.arange(count)).ravel()


def _bits(values: np.ndarray, count: int) -> np.ndarray:
    """Return the lowest bits of numbers, joined."""
    return (np.asarray(values).astype(int)[:, None] >> np.arange(count) & 1).ravel()


def _last_action(config: Config, world: World, row: int) -> dict[str, np.ndarray]:
    """Return the parts of the last action as the agent in this row observes it."""
    sizes, state = config.sizes, world.state
    players, hand_size, colors, ranks = sizes.players, sizes.hand_size, sizes.colors, sizes.ranks
    actor, choice = int(state["last_player"]), int(state["last_action"])
    seat = (actor - row) % players
    target = hint = place = -1
    if choice < 2 * hand_size:
        kind, place = int(choice < hand_size), choice % hand_size
    elif choice < 2 * hand_size + (players - 1) * colors:
        offset, hint = divmod(choice - 2 * hand_size, colors)
        kind, target = 2, (seat + 1 + offset) % players
    else:
        offset, rank = divmod(choice - 2 * hand_size - (players - 1) * colors, ranks)
        kind, target, hint = 3, (seat + 1 + offset) % players, colors + rank
    result = int(state["last_result"]) if kind == 0 else 0
    bits = {"hinted": (int(state["last_hinted"]), hand_size), "result": (result, 2)}
    ones = {
        "actor": (seat, players),
        "kind": (kind, 4),
        "target": (target, players),
        "value": (hint, colors + ranks),
        "place": (place, hand_size),
        "card": (int(state["last_card"]), sizes.cards),
    }
    found = {name: _one_hot(np.array([value]), count) for name, (value, count) in ones.items()}
    found |= {name: _bits(np.array([value]), count) for name, (value, count) in bits.items()}
    return found if actor >= 0 else {name: values * 0 for name, values in found.items()}
