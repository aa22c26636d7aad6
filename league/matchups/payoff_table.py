"""The payoff table: estimated returns of every seat in every matchup, their confidence, and the missing episodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.special import stdtrit
from torch import Tensor

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.game import Game
from league.matchups.matchups import MatchupResults


def num_cells(game: Game, sizes: Mapping[str, int]) -> int:
    """Return the number of cells of the payoff table of populations of these sizes by role."""
    if game.shared:
        return math.comb(sizes[game.roles[0]] + len(game.seats) - 1, len(game.seats))
    return math.prod(sizes[seat.role] for seat in game.seats)


def kept_policies(game: Game, sizes: Mapping[str, int], max_cells: int | None) -> dict[str, list[int]] | None:
    """Return the indices of the policies of a limited payoff table by role, ascending; None: all policies.

    With more than two seats the number of cells grows faster than the squared number of policies. If a table had more
    than `max_cells` cells, each role keeps the same number of policies at equal distances, including the first and the
    last.
    """
    if max_cells is None or len(game.seats) <= 2 or num_cells(game, sizes) <= max_cells:
        return None
    limit = max(sizes.values())
    while limit > 2 and num_cells(game, {role: min(size, limit) for role, size in sizes.items()}) > max_cells:
        limit -= 1
    selected = {role: np.linspace(0, size - 1, min(size, limit)).round().astype(int) for role, size in sizes.items()}
    return {role: indices.tolist() for role, indices in selected.items()}


class PayoffTable:
    """Estimated returns by matchup, with one axis of policies per seat: (N_1, ..., N_S), or (S, N_1, ..., N_S).

    Symmetries of the game reduce the number of cells. In a shared population, matchups with the same policies in
    another order are one cell, and equal policies have equal payoffs. In a zero-sum game the seats' estimates are
    shifted so that their sum is 0. A policy that plays against itself in all seats of a shared population then has the
    payoff 0 without any episodes.
    """

    def __init__(self, game: Game, sizes: Mapping[str, int] | None = None) -> None:
        """Create an empty table.

        Args:
            game: Game whose seats are the axes.
            sizes: Number of policies by role; 0 for other roles.
        """
        self.game: Game = game
        self.seats: int = len(game.seats)
        self.sizes: dict[str, int] = dict.fromkeys(game.roles, 0)
        self._sums = torch.zeros((1 + 3 * self.seats, *self.shape), dtype=torch.float64)
        self.grow(sizes or {})

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of policies of the seats (N_1, ..., N_S)."""
        return tuple(self.sizes[seat.role] for seat in self.game.seats)

    def grow(self, sizes: Mapping[str, int]) -> None:
        """Enlarge the table for populations of these sizes by role; raise ConfigError for unknown roles."""
        for role, size in sizes.items():
            if role not in self.sizes:
                raise ConfigError(f"{self.game.env_id}: expected a role among {', '.join(self.sizes)}, got {role!r}")
            self.sizes[role] = max(self.sizes[role], int(size))
        if self.shape != self._sums.shape[1:]:
            old, self._sums = self._sums, torch.zeros((len(self._sums), *self.shape), dtype=torch.float64)
            self._sums[tuple(slice(length) for length in old.shape)] = old

    def add(self, matchups: Tensor | np.ndarray | Sequence[Sequence[int]], results: MatchupResults) -> None:
        """Add the results of K matchups (K, S); the table grows if necessary.

        Raises:
            GpuEnvsError: A payoff is not finite, or an index is negative; nothing has changed.
        """
        indices = torch.as_tensor(matchups, dtype=torch.int64, device="cpu").reshape(-1, self.seats)
        sums = torch.stack([results.total, results.square, results.score])  # (3, K, S)
        bad = (~sums.isfinite()).any(2).any(0) | (indices < 0).any(1)
        if bad.any():
            at = int(bad.int().argmax())
            raise GpuEnvsError(
                f"{self.game.env_id}: matchup {tuple(indices[at].tolist())}: expected policies >= 0 and finite "
                f"payoffs, got a total of {results.total[at].tolist()} in {int(results.count[at])} episodes"
            )
        for axis, seat in enumerate(self.game.seats):
            self.grow({seat.role: int(indices[:, axis].max()) + 1 if len(indices) else 0})
        if self.game.shared:
            indices, order = indices.sort(dim=1, stable=True)
            sums = sums.gather(2, order.expand(3, -1, -1))
        columns = torch.cat([results.count[:, None].double(), sums.permute(1, 0, 2).flatten(1)], 1)
        flat = torch.as_tensor(np.ravel_multi_index(indices.T.numpy(), self.shape)) if len(indices) else indices[:, 0]
        self._sums.flatten(1).index_add_(1, flat, columns.T)

    # ---------------------------------------------------------------- estimates

    @property
    def count(self) -> Tensor:
        """Numbers of episodes (N_1, ..., N_S) int64."""
        return self._everywhere(self._sums[:1].expand(self.seats, *self.shape))[0].long()

    @property
    def mean(self) -> Tensor:
        """Mean returns (S, N_1, ..., N_S) float64; NaN in cells without episodes."""
        mean = self._shared_out(self._part(0) / self._sums[0])
        if self.game.zero_sum:
            mean = (mean - mean.mean(0)).masked_fill(self._exact_cells(), 0.0)
        return mean

    @property
    def variance(self) -> Tensor:
        """Unbiased variances of the returns (S, N_1, ..., N_S); NaN with fewer than two episodes.

        If one estimate combines several seats, it is the average of their variances, an upper bound.
        """
        count, total, square = self._sums[0], self._part(0), self._part(1)
        variance = ((square - total * total / count) / (count - 1)).clamp(min=0.0)
        variance = self._shared_out(variance.masked_fill(count < 2, math.nan))
        if self.game.zero_sum:
            variance = variance.mean(0).expand_as(variance) if self.seats == 2 else variance
            variance = variance.masked_fill(self._exact_cells(), 0.0)
        return variance

    @property
    def half_width(self) -> Tensor:
        """Half-widths of the 95 % confidence intervals of `mean` by Student's t (S, N_1, ..., N_S).

        They are infinite with fewer than two episodes, and 0 if all episodes have equal returns.
        """
        count = self.count.double()
        quantile = torch.from_numpy(np.asarray(stdtrit((count - 1).clamp(min=1).numpy(), 0.975)))
        half = quantile * (self.variance / count).sqrt()
        return half.masked_fill(count < 2, math.inf).masked_fill(self._exact_cells(), 0.0)

    @property
    def score(self) -> Tensor:
        """Mean scores (S, N_1, ..., N_S); with two seats the win rate, where a draw counts half."""
        score = self._shared_out(self._part(2) / self._sums[0])
        return score.masked_fill(self._exact_cells(), 0.5)

    def win_rate(self) -> Tensor:
        """Return the scores of the first seat (N_1, ..., N_S)."""
        return self.score[0]

    def meta_game(self) -> Tensor:
        """Return the payoffs of the meta-game (S, N_1, ..., N_S), which are `mean`."""
        return self.mean

    # ---------------------------------------------------------------- missing episodes

    def missing(self, episodes: int, ci_half_width: float | None = None) -> tuple[Tensor, Tensor]:
        """Return the matchups with missing episodes, and their numbers.

        Args:
            episodes: Number of episodes of every cell.
            ci_half_width: Limit of `half_width`. A wider cell gets the number of episodes that its variance suggests,
                at most three times its present number.

        Returns:
            Matchups (K, S) and numbers of episodes (K,), int64; one matchup per cell.

        Raises:
            ConfigError: `episodes` is below 1, or `ci_half_width` is not above 0.
        """
        if episodes < 1 or (ci_half_width is not None and not ci_half_width > 0):
            raise ConfigError(
                f"{self.game.env_id}: expected episodes >= 1 and ci_half_width > 0 or None, "
                f"got {episodes}, {ci_half_width}"
            )
        shortfall = (episodes - self.count).clamp(min=0)
        if ci_half_width is not None:
            wide = (self.half_width > ci_half_width).any(0) & (shortfall == 0)
            count = self.count.clamp(min=1)
            extra = (self.variance.amax(0) * (1.96 / ci_half_width) ** 2).ceil() - count
            extra = extra.nan_to_num(1.0).minimum(3.0 * count).clamp(min=1.0).long()
            shortfall = torch.where(wide, extra, shortfall)
        shortfall = shortfall.masked_fill(self._exact_cells(), 0)
        cells = shortfall.nonzero()
        if self.game.shared:
            cells = cells[(cells.diff(dim=1) >= 0).all(1)]
        return cells, shortfall[tuple(cells.T)]

    # ---------------------------------------------------------------- symmetries

    def _part(self, kind: int) -> Tensor:
        """Return the sums of returns (0), squared returns (1) or scores (2) (S, N_1, ..., N_S), as stored."""
        return self._sums[1 + kind * self.seats : 1 + (kind + 1) * self.seats]

    def _everywhere(self, values: Tensor) -> Tensor:
        """Return values (S, N_1, ..., N_S) of matchups in any order, from those with ascending policies."""
        if not self.game.shared:
            return values
        result = torch.empty_like(values)
        cells = torch.ones(self.shape).nonzero()  # (all, S)
        ascending, order = cells.sort(dim=1, stable=True)
        result[:, *cells.T] = torch.empty_like(cells.T, dtype=values.dtype).scatter_(
            0, order.T, values[:, *ascending.T]
        )
        return result

    def _shared_out(self, values: Tensor) -> Tensor:
        """Return `_everywhere`, with the average over the seats of equal policies."""
        estimates = self._everywhere(values)
        if not self.game.shared:
            return estimates
        total, times = torch.zeros_like(estimates), torch.zeros_like(estimates)
        places = [torch.arange(size).view(-1, *[1] * (self.seats - 1 - seat)) for seat, size in enumerate(self.shape)]
        for first, second in itertools.product(range(self.seats), repeat=2):
            same = places[first] == places[second]
            total[first] += torch.where(same, estimates[second], 0.0)
            times[first] += same
        return total / times

    def _exact_cells(self) -> Tensor:
        """Return the matchups that need no episodes, (N_1, ..., N_S) or a scalar."""
        if not (self.game.shared and self.game.zero_sum):
            return torch.zeros((), dtype=torch.bool)
        cells = torch.ones(self.shape).nonzero()
        return (cells == cells[:, :1]).all(1).view(self.shape)
