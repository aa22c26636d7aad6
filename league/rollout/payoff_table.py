"""The payoff table: what every seat earns in every matchup, how sure that is, and what is still to be played."""

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
from league.matches import Results


class PayoffTable:
    """Estimates by matchup, an axis of policies for each of the S seats: (N_1, ..., N_S), led by seats where it says S.

    What a game declares is used. Seats of one population: matchups of the same policies in another order are one
    cell, and a policy that sits twice earns the same twice. Zero-sum: the seats' estimates are shifted to sum to 0
    (two seats: one estimate for both); a policy against itself alone, in seats of one population, is known to earn 0
    and never played.
    """

    def __init__(self, game: Game, sizes: Mapping[str, int] | None = None) -> None:
        """An empty table.

        Args:
            game: Whose seats are its axes.
            sizes: Policies by role; 0 where nothing is said.
        """
        self.game, self.seats = game, len(game.seats)
        self.sizes = dict.fromkeys(game.roles, 0)
        self._sums = torch.zeros((1 + 3 * self.seats, *self.shape), dtype=torch.float64)
        self.grow(sizes or {})

    @property
    def shape(self) -> tuple[int, ...]:
        """(N_1, ..., N_S)."""
        return tuple(self.sizes[seat.role] for seat in self.game.seats)

    def grow(self, sizes: Mapping[str, int]) -> None:
        """Makes room for populations of these sizes by role, else ConfigError; it never shrinks."""
        for role, size in sizes.items():
            if role not in self.sizes:
                raise ConfigError(f"{self.game.env_id}: no role {role!r}, only {', '.join(self.sizes)}")
            self.sizes[role] = max(self.sizes[role], int(size))
        if self.shape != self._sums.shape[1:]:
            old, self._sums = self._sums, torch.zeros((len(self._sums), *self.shape), dtype=torch.float64)
            self._sums[tuple(slice(length) for length in old.shape)] = old

    def add(self, matchups: Tensor | np.ndarray | Sequence[Sequence[int]], results: Results) -> None:
        """Adds what K matchups (K, S) gave to what is there; the table grows with them.

        Raises:
            GpuEnvsError: A payoff that is not a finite number, or a policy below 0; nothing has changed then.
        """
        who = torch.as_tensor(matchups, dtype=torch.int64, device="cpu").reshape(-1, self.seats)
        sums = torch.stack([results.total, results.square, results.score])  # (3, K, S)
        bad = (~sums.isfinite()).any(2).any(0) | (who < 0).any(1)
        if bad.any():
            at = int(bad.int().argmax())
            raise GpuEnvsError(
                f"{self.game.env_id}: matchup {tuple(who[at].tolist())}: expected policies >= 0 and finite payoffs, "
                f"got a total of {results.total[at].tolist()} in {int(results.count[at])} episodes"
            )
        for place, seat in enumerate(self.game.seats):
            self.grow({seat.role: int(who[:, place].max()) + 1 if len(who) else 0})
        if self.game.shared:
            who, order = who.sort(dim=1, stable=True)
            sums = sums.gather(2, order.expand(3, -1, -1))
        columns = torch.cat([results.count[:, None].double(), sums.permute(1, 0, 2).flatten(1)], 1)
        flat = torch.as_tensor(np.ravel_multi_index(who.T.numpy(), self.shape)) if len(who) else who[:, 0]
        self._sums.flatten(1).index_add_(1, flat, columns.T)

    # ---------------------------------------------------------------- estimates

    @property
    def count(self) -> Tensor:
        """Episodes, (N_1, ..., N_S) int64."""
        return self._everywhere(self._sums[:1].expand(self.seats, *self.shape))[0].long()

    @property
    def mean(self) -> Tensor:
        """What each seat's policy earns in an episode, (S, N_1, ..., N_S) float64; NaN where nothing is known."""
        mean = self._shared_out(self._part(0) / self._sums[0])
        if self.game.zero_sum:
            mean = (mean - mean.mean(0)).masked_fill(self._known(), 0.0)
        return mean

    @property
    def variance(self) -> Tensor:
        """Of what each seat's policy earns in an episode, (S, N_1, ..., N_S), unbiased; NaN below two episodes.

        Where one estimate is made of those of several seats it is their average, which is at least what is due.
        """
        count, total, square = self._sums[0], self._part(0), self._part(1)
        variance = ((square - total * total / count) / (count - 1)).clamp(min=0.0)
        variance = self._shared_out(variance.masked_fill(count < 2, math.nan))
        if self.game.zero_sum:
            variance = variance.mean(0).expand_as(variance) if self.seats == 2 else variance
            variance = variance.masked_fill(self._known(), 0.0)
        return variance

    @property
    def half_width(self) -> Tensor:
        """Half of the 95 % interval of `mean`, (S, N_1, ..., N_S): Student's t; infinite below two episodes.

        It is 0 where all episodes gave the same, and then as good as they are many.
        """
        count = self.count.double()
        quantile = torch.from_numpy(np.asarray(stdtrit((count - 1).clamp(min=1).numpy(), 0.975)))
        half = quantile * (self.variance / count).sqrt()
        return half.masked_fill(count < 2, math.inf).masked_fill(self._known(), 0.0)

    @property
    def score(self) -> Tensor:
        """Mean score of each seat's policy, (S, N_1, ..., N_S): of two seats its chance to win, draws being half."""
        score = self._shared_out(self._part(2) / self._sums[0])
        return score.masked_fill(self._known(), 0.5)

    def win_rate(self) -> Tensor:
        """`score` of the first seat, (N_1, ..., N_S)."""
        return self.score[0]

    def meta_game(self) -> Tensor:
        """The payoffs of the game whose choices are policies, (S, N_1, ..., N_S): `mean`."""
        return self.mean

    # ---------------------------------------------------------------- what to play next

    def missing(self, episodes: int, tolerance: float | None = None) -> tuple[Tensor, Tensor]:
        """Matchups that are still to be played, and how often.

        Args:
            episodes: What every cell is to have.
            tolerance: What `half_width` is to be below. Where it is not, the number that the variance so far asks for
                is due, at most three times those played.

        Returns:
            Matchups (K, S) and episodes (K,), int64; of those that are one cell only one.

        Raises:
            ConfigError: No episodes, or a tolerance that is not above 0.
        """
        if episodes < 1 or (tolerance is not None and not tolerance > 0):
            raise ConfigError(
                f"{self.game.env_id}: expected episodes >= 1 and a tolerance > 0 or None, got {episodes}, {tolerance}"
            )
        due = (episodes - self.count).clamp(min=0)
        if tolerance is not None:
            wide = (self.half_width > tolerance).any(0) & (due == 0)
            count = self.count.clamp(min=1)
            wanted = (self.variance.amax(0) * (1.96 / tolerance) ** 2).ceil() - count
            wanted = wanted.nan_to_num(1.0).minimum(3.0 * count).clamp(min=1.0).long()
            due = torch.where(wide, wanted, due)
        due = due.masked_fill(self._known(), 0)
        who = due.nonzero()
        if self.game.shared:
            who = who[(who.diff(dim=1) >= 0).all(1)]
        return who, due[tuple(who.T)]

    # ---------------------------------------------------------------- inside

    def _part(self, which: int) -> Tensor:
        """(S, N_1, ..., N_S), sums of 0: totals, 1: squares, 2: scores, where they are kept."""
        return self._sums[1 + which * self.seats : 1 + (which + 1) * self.seats]

    def _everywhere(self, kept: Tensor) -> Tensor:
        """(S, N_1, ..., N_S) for matchups in any order, from those whose policies ascend."""
        if not self.game.shared:
            return kept
        found = torch.empty_like(kept)
        who = torch.ones(self.shape).nonzero()  # (all, S)
        ascending, order = who.sort(dim=1, stable=True)
        found[:, *who.T] = torch.empty_like(who.T, dtype=kept.dtype).scatter_(0, order.T, kept[:, *ascending.T])
        return found

    def _shared_out(self, kept: Tensor) -> Tensor:
        """`_everywhere`, where a policy that sits several times has the average of its seats."""
        found = self._everywhere(kept)
        if not self.game.shared:
            return found
        total, times = torch.zeros_like(found), torch.zeros_like(found)
        places = [torch.arange(size).view(-1, *[1] * (self.seats - 1 - seat)) for seat, size in enumerate(self.shape)]
        for one, other in itertools.product(range(self.seats), repeat=2):
            same = places[one] == places[other]
            total[one] += torch.where(same, found[other], 0.0)
            times[one] += same
        return total / times

    def _known(self) -> Tensor:
        """Matchups that need no episodes, (N_1, ..., N_S) or a scalar."""
        if not (self.game.shared and self.game.zero_sum):
            return torch.zeros((), dtype=torch.bool)
        who = torch.ones(self.shape).nonzero()
        return (who == who[:, :1]).all(1).view(self.shape)
