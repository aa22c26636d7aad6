"""Lineups: matchups with their policies in the seats, and the numbers of their episodes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from league.game import Game

__all__ = ["Lineups", "of_worlds"]


@dataclass(frozen=True)
class Lineups:
    """L lineups of S seats. Each plays several episodes, in worlds that follow one another."""

    matchup: Tensor
    """Number of the matchup (L,) int64, ascending."""
    order: Tensor | None
    """Place in the matchup of the policy in every seat (L, S) int64; None: policies keep their seats."""
    policies: Tensor
    """Index of the policy in every seat (L, S) int64, in the population of the seat's role."""
    count: Tensor
    """Number of episodes (L,) int64, at least 1."""

    @classmethod
    def of(cls, game: Game, matchups: Tensor, episodes: Tensor) -> Lineups:
        """Return the lineups of matchups.

        In a game with a shared population the episodes of a matchup are divided among the orders of its policies.

        Args:
            game: Game with the seats.
            matchups: (K, S), index of each seat's policy.
            episodes: (K,) int64, number of episodes of every matchup.
        """
        if not game.shared:
            numbers = torch.arange(len(matchups))
            known = episodes > 0
            return cls(numbers[known], None, matchups[known], episodes[known])
        orders = _orders(len(game.seats))
        number = torch.arange(len(orders)).repeat(len(matchups))
        matchup = torch.arange(len(matchups)).repeat_interleave(len(orders))
        count = (episodes[matchup] + len(orders) - 1 - number) // len(orders)  # the first orders take the remainder
        known = count > 0
        matchup, order = matchup[known], orders[number[known]]
        return cls(matchup, order, matchups[matchup].gather(1, order), count[known])

    def part(self, first: int, end: int) -> Lineups:
        """Return the lineups of the episodes from `first` to `end`."""
        ends = self.count.cumsum(0)
        count = (ends.clamp(max=end) - (ends - self.count).clamp(min=first)).clamp(min=0)
        known = count > 0
        order = None if self.order is None else self.order[known]
        return Lineups(self.matchup[known], order, self.policies[known], count[known])

    @cached_property
    def of_worlds(self) -> Tensor:
        """Lineup of every world (W,) int64."""
        return of_worlds(self.count)


def of_worlds(count: Tensor) -> Tensor:
    """Return the lineup of every world (W,) int64, if the lineups have these numbers of worlds (L,)."""
    if len(count) == 1:
        return torch.zeros(int(count), dtype=torch.int64)
    return torch.arange(len(count)).repeat_interleave(count)


def _orders(num_seats: int) -> Tensor:
    """Return the orders of a matchup's policies over the seats, (orders, S)."""
    seats = range(num_seats)
    if num_seats <= 5:
        return torch.tensor(list(itertools.permutations(seats)))
    return torch.tensor([[(seat + by) % num_seats for seat in seats] for by in seats])
