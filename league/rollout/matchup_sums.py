"""Sums of the returns of episodes by matchup."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import warp as wp

import warp_kernels
from league.rollout.lineups import Lineups
from warp_kernels.framework.matchup_sums import build_matchup_sums

__all__ = ["MatchupAdder", "MatchupSums"]


@dataclass(frozen=True)
class MatchupSums:
    """Sums over the episodes of K matchups with S seats, see `league.rollout.matchups.MatchupResults`."""

    total: np.ndarray
    """Sums of the returns of each seat's policy (K, S) float64."""
    square: np.ndarray
    """Sums of the squared returns (K, S) float64."""
    score: np.ndarray
    """Sums of the scores (K, S) float64."""

    @classmethod
    def zeros(cls, matchups: int, seats: int) -> MatchupSums:
        """Return the sums over no episodes."""
        return cls(*(np.zeros((matchups, seats)) for _ in range(3)))


class MatchupAdder:
    """Add up the returns of up to E worlds, in their order, by one launch on the host.

    The operations of NumPy or PyTorch for it take a tenth of the time of a payoff cell of Kuhn poker.
    """

    def __init__(self, num_envs: int, seats: int) -> None:
        """Allocate buffers for E worlds and S seats; compile nothing yet."""
        self._matchup, self._count = np.zeros(num_envs, np.int64), np.zeros(num_envs + 1, np.int64)
        self._earned, self._sums = np.zeros((num_envs, seats)), np.zeros((0, 3 * seats))
        self._draw_margin = np.zeros(1)

    def add(self, sums: MatchupSums, lineups: Lineups, earned: np.ndarray, draw_margin: float) -> None:
        """Add returns, their squares and scores of every seat's policy.

        Args:
            sums: Sums of K matchups.
            lineups: Lineups of W worlds.
            earned: (W, S) float, return of every seat.
            draw_margin: See `league.rollout.matchups.scores`.
        """
        matchups, seats = sums.total.shape
        if matchups > len(self._sums):
            self._sums = np.zeros((matchups, 3 * seats))
            self._record()
        if lineups.order is not None:  # from seats back to the policies
            of_seats, earned = earned, np.empty_like(earned)
            np.put_along_axis(earned, lineups.order[lineups.of_worlds], of_seats, 1)
        count = len(lineups.count)
        self._matchup[:count], self._count[:count], self._earned[: len(earned)] = lineups.matchup, lineups.count, earned
        self._count[count], self._draw_margin[0] = 0, draw_margin
        found = self._sums[:matchups]
        found.fill(0.0)
        self._launch.launch()
        for place, total in enumerate((sums.total, sums.square, sums.score)):
            total += found[:, place * seats : (place + 1) * seats]

    def _record(self) -> None:
        arrays = (self._draw_margin, self._matchup, self._count, self._earned, self._sums)
        with warp_kernels.building:
            warp_kernels.start()
            inputs = [wp.from_torch(torch.from_numpy(array)) for array in arrays]
            self._launch = wp.launch(build_matchup_sums(), 1, inputs, device="cpu", record_cmd=True)
