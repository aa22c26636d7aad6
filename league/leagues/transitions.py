"""Transitions of players between two iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from league.leagues.player import Player

__all__ = ["Change", "Copy", "Enter", "Freeze", "Reset", "Retire"]


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
