"""Lineups: matchups with their policies in the seats, and the numbers of their episodes.

They are small arrays of NumPy: with PyTorch, their operations would take as long as a payoff cell of Kuhn poker.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from league.game import Game

__all__ = ["Lineups", "of_worlds"]


@dataclass(frozen=True)
class Lineups:
    """L lineups of S seats. Each plays several episodes, in worlds that follow one another."""

    matchup: np.ndarray
    """Number of the matchup (L,) int64, ascending."""
    order: np.ndarray | None
    """Place in the matchup of the policy in every seat (L, S) int64; None: policies keep their seats."""
    policies: np.ndarray
    """Index of the policy in every seat (L, S) int64, in the population of the seat's role."""
    count: np.ndarray
    """Number of episodes (L,) int64, at least 1."""

    @classmethod
    def of(cls, game: Game, matchups: np.ndarray, episodes: np.ndarray) -> Lineups:
        """Return the lineups of matchups.

        In a game with a shared population the episodes of a matchup are divided among the orders of its policies.

        Args:
            game: Game with the seats.
            matchups: (K, S), index of each seat's policy.
            episodes: (K,) int64, number of episodes of every matchup.
        """
        if not game.shared:
            (numbers,) = episodes.nonzero()
            return cls(numbers, None, matchups[numbers], episodes[numbers])
        orders = _orders(len(game.seats))
        number = np.tile(np.arange(len(orders)), len(matchups))
        matchup = np.arange(len(matchups)).repeat(len(orders))
        count = (episodes[matchup] + len(orders) - 1 - number) // len(orders)  # the first orders take the remainder
        nonempty = count > 0
        matchup, order = matchup[nonempty], orders[number[nonempty]]
        return cls(matchup, order, np.take_along_axis(matchups[matchup], order, 1), count[nonempty])

    def part(self, first: int, end: int) -> Lineups:
        """Return the lineups of the episodes from `first` to `end`."""
        ends = self.count.cumsum()
        count = np.minimum(ends, end) - np.maximum(ends - self.count, first)
        nonempty = count > 0
        order = None if self.order is None else self.order[nonempty]
        return Lineups(self.matchup[nonempty], order, self.policies[nonempty], count[nonempty])

    @cached_property
    def of_worlds(self) -> np.ndarray:
        """Lineup of every world (W,) int64."""
        return of_worlds(self.count)


def of_worlds(count: np.ndarray) -> np.ndarray:
    """Return the lineup of every world (W,) int64, if the lineups have these numbers of worlds (L,)."""
    return np.arange(len(count)).repeat(count)


@cache
def _orders(num_seats: int) -> np.ndarray:
    """Return the orders of a matchup's policies over the seats, (orders, S)."""
    seats = range(num_seats)
    if num_seats <= 5:
        return np.array(list(itertools.permutations(seats)))
    return np.array([[(seat + by) % num_seats for seat in seats] for by in seats])
