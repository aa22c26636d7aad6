"""Players of a league and their matches."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Match", "Player"]


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
