"""Lineups: matchups with their policies in the seats, the numbers of their episodes, and the sums of their returns.

They are small arrays of NumPy: with PyTorch, their operations would take as long as a payoff cell of Kuhn poker.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch

import warp_kernels
from gpu_envs.utils.devices import warp_array
from league.game import Game
from warp_kernels.framework.matchup_sums import build_matchup_sums
from warp_kernels.framework.recorded_launch import record_launch


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


class MatchupAdder:
    """Add up the returns of up to E worlds, in their order, by one launch on the host.

    The operations of NumPy or PyTorch for it take a tenth of the time of a payoff cell of Kuhn poker.
    """

    def __init__(self, num_envs: int, seats: int) -> None:
        """Allocate buffers for E worlds and S seats; compile nothing yet."""
        self._matchup, self._count = np.zeros(num_envs, np.int64), np.zeros(num_envs + 1, np.int64)
        self._earned, self._sums = np.zeros((num_envs, seats)), np.zeros((0, 3 * seats))
        self._draw_margin = np.zeros(1)
        self._launch: Any = None

    def add(self, sums: np.ndarray, lineups: Lineups, earned: np.ndarray, draw_margin: float) -> None:
        """Add returns, their squares and scores of every seat's policy.

        Args:
            sums: (3, K, S) float64, sums of returns, of their squares, and of scores.
            lineups: Lineups of W worlds.
            earned: (W, S) float, return of every seat.
            draw_margin: See `league.matchups.matchups.scores`.
        """
        _, matchups, seats = sums.shape
        if matchups > len(self._sums):
            self._sums = np.zeros((matchups, 3 * seats))
            self._record()
        if lineups.order is not None:  # from seats back to the policies
            of_seats, earned = earned, np.empty_like(earned)
            np.put_along_axis(earned, lineups.order[lineups.of_worlds], of_seats, 1)
        count = len(lineups.count)
        self._matchup[:count], self._count[:count], self._earned[: len(earned)] = lineups.matchup, lineups.count, earned
        self._count[count], self._draw_margin[0] = 0, draw_margin
        rows = self._sums[:matchups]
        rows.fill(0.0)
        self._launch.launch()
        sums += rows.reshape(matchups, 3, seats).swapaxes(0, 1)

    def _record(self) -> None:
        arrays = (self._draw_margin, self._matchup, self._count, self._earned, self._sums)
        with warp_kernels.building:
            warp_kernels.start()
            inputs = [warp_array(torch.from_numpy(array)) for array in arrays]
            self._launch = record_launch(build_matchup_sums(), 1, inputs, "cpu")
