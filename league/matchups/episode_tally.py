"""Returns and scores of finished episodes by matchup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class EpisodeTally:
    """Sums over episodes by matchup, on the host."""

    matchups: Tensor
    """(K, S) int64, see `MatchupDistribution.matchups`."""
    learns: Tensor
    """(K, S) bool, see `MatchupDistribution.learns`."""
    started: Tensor
    """Number of started episodes (K,) int64."""
    count: Tensor
    """Number of finished episodes (K,) int64."""
    total: Tensor
    """Sums of the returns of each seat's agents (K, S) float64."""
    square: Tensor
    """Sums of the squared returns (K, S) float64."""
    score: Tensor
    """Sums of the scores (K, S) float64, see `league.matchups.matchups.scores`."""
    pairs: Tensor
    """Sums of the scores of pairs of seats (K, S (S - 1) / 2) float64, see `league.matchups.matchups.pair_scores`; with
    two seats (K, 0)."""

    @classmethod
    def sum(cls, tallies: Sequence[EpisodeTally]) -> EpisodeTally:
        """Return the sum of one or more tallies."""
        keys = torch.cat([torch.cat([tally.matchups, tally.learns.long()], 1) for tally in tallies])
        rows, index = torch.unique(keys, dim=0, return_inverse=True)
        matchups, learns = rows.chunk(2, 1)
        sums = []
        for name in ("started", "count", "total", "square", "score", "pairs"):
            values = torch.cat([getattr(tally, name) for tally in tallies])
            sums.append(values.new_zeros((len(rows), *values.shape[1:])).index_add_(0, index, values))
        return cls(matchups, learns.bool(), *sums)

    def mean_return(self, seats: Sequence[int] | None = None) -> float:
        """Return the mean return of the learning seats, of all or of some; NaN without finished episodes."""
        return self._of_learners(self.total, seats)

    def mean_score(self, seats: Sequence[int] | None = None) -> float:
        """Return the mean score of the learning seats; 1 if they win every episode."""
        return self._of_learners(self.score, seats)

    def score_against(self, seat: int, other: int) -> Tensor:
        """Return the sums of the scores of one seat against another (K,): a win is 1, a draw 1/2 and a loss 0."""
        seats = self.learns.shape[1]
        if seats == 2:
            return self.score[:, seat]
        low, high = min(seat, other), max(seat, other)
        wins = self.pairs[:, low * (2 * seats - low - 1) // 2 + high - low - 1]
        return wins if seat < other else self.count - wins

    def _of_learners(self, sums: Tensor, seats: Sequence[int] | None) -> float:
        chosen = list(range(self.learns.shape[1]) if seats is None else seats)
        learns = self.learns[:, chosen]
        episodes = float((learns * self.count.unsqueeze(1)).sum())
        return float(sums[:, chosen][learns].sum()) / episodes if episodes else math.nan
