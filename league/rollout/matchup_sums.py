"""Sums of the returns of episodes by matchup."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp

import warp_kernels
from league.rollout.lineups import Lineups
from warp_kernels.framework.matchup_sums import build_matchup_sums
from warp_kernels.framework.recorded_launch import record_launch

__all__ = ["MatchupAdder"]


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
            draw_margin: See `league.rollout.matchups.scores`.
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
            inputs = [wp.from_torch(torch.from_numpy(array)) for array in arrays]
            self._launch = record_launch(build_matchup_sums(), 1, inputs, "cpu")
