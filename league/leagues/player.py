"""Players of a league, their matches, and their transitions between two iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RANDOM_NAME = "random"
"""Name of the random policy, which is the first of every population."""


@dataclass(frozen=True)
class Player:
    """A learning player, or a frozen copy of one."""

    name: str
    """Unique name in the league."""
    role: str
    """Role, which is the name of its population."""
    kind: str
    """Kind given by the builder, such as "main"; a frozen copy has the kind of its parent."""
    parent: str | None = None
    """Player of which this is a frozen copy; None: a learning player."""


@dataclass(frozen=True)
class Match:
    """An opponent and its share of a player's episodes."""

    opponent: str
    """Name of the opponent."""
    probability: float
    """Share of the episodes; the shares of a player's matches sum to 1."""


def opponent_kind(players: Mapping[str, Player], name: str) -> str:
    """Return the kind of an opponent, which is its player's, such as "main" or "frozen main", or "random"."""
    if name == RANDOM_NAME:
        return RANDOM_NAME
    player = players[name]
    return f"frozen {player.kind}" if player.parent else player.kind


@dataclass(frozen=True)
class Freeze:
    """Add a permanent frozen copy of a learning player to its population."""

    player: str
    """Name of the learning player."""


@dataclass(frozen=True)
class Reset:
    """Reset a learning player to its first weights, after freezes of the same iteration."""

    player: str
    """Name of the learning player."""


@dataclass(frozen=True)
class Copy:
    """Give a learning player the weights and learner settings of another, with some settings multiplied."""

    player: str
    """Name of the player that receives the weights."""
    source: str
    """Name of the learning player that they are copied from."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """Factors of numeric learner settings, by name."""


@dataclass(frozen=True)
class Enter:
    """Add a new learning player."""

    player: Player
    """Player to add, without a parent."""


@dataclass(frozen=True)
class Retire:
    """Retire a learning player: it neither trains nor plays anymore; its frozen copies stay."""

    player: str
    """Name of the learning player."""


Change = Freeze | Reset | Copy | Enter | Retire  # transition of a player
