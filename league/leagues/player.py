"""Players of a league and their matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["RANDOM_NAME", "Match", "Player", "opponent_kind"]

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
