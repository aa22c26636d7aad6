"""Episodes of learned responses against a mixture, and of the mixture itself, in one batch of matchups."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from league.evaluation.payoff_filler import PayoffSamplingConfig, payoff_task
from league.executors import Executor, gather
from league.game import Game
from league.rollout.matchup_distribution import LEARNER, NEGLIGIBLE, MatchupDistribution, filled
from league.solvers import MetaStrategy
from league.storage.run_store import derive_named_seed
from trainers.models.policy import PolicyProtocol

__all__ = ["ResponseMatches", "ResponseReturns", "SeatReturns"]


class SeatReturns(NamedTuple):
    """Mean returns of the seats of one profile."""

    mean: Tensor
    """(S,) float64, means over episodes."""
    error: Tensor
    """(S,) float64, their standard errors."""


class ResponseReturns(NamedTuple):
    """Mean returns of R responses of every seat, each against the mixture of the other seats."""

    mean: Tensor
    """(R, S) float64, means over episodes of the seat's response."""
    error: Tensor
    """(R, S) float64, their standard errors."""
    mixture: SeatReturns
    """Returns of the mixture in all seats; NaN if it was not played."""


class ResponseMatches:
    """Play responses of single seats against a mixture of the other seats."""

    def __init__(
        self,
        game: Game,
        pools: Mapping[str, Sequence[PolicyProtocol]],
        mixture: MetaStrategy,
        sampling: PayoffSamplingConfig,
        executor: Executor,
    ) -> None:
        """Choose the policies in the support of the mixture.

        Args:
            game: Game to play.
            pools: Policies by role.
            mixture: Distribution over policies of the pools.
            sampling: Number of episodes of each response and of the mixture, device and number of worlds.
            executor: Executor of the simulation.
        """
        self.sampling: PayoffSamplingConfig = sampling
        self.executor: Executor = executor
        # one population per seat, because a response plays one seat while the others keep their mixtures
        self.game: Game = dataclasses.replace(
            game, seats=tuple(dataclasses.replace(seat, role=seat.name) for seat in game.seats)
        )
        self.pools: dict[str, list[PolicyProtocol]] = {}
        weights, joint = [], mixture.joint
        for axis, (seat, weight) in enumerate(zip(game.seats, mixture.marginals, strict=True)):
            support = (weight > NEGLIGIBLE).nonzero().flatten()
            self.pools[seat.name] = [pools[seat.role][index] for index in support.tolist()]
            weights.append(weight[support] / weight[support].sum())
            joint = None if joint is None else joint.index_select(axis, support)
        self.mixture: MetaStrategy = MetaStrategy(tuple(weights), joint)

    def play(
        self, key: str, responses: Sequence[Sequence[PolicyProtocol]], seed: int, with_mixture: bool = True
    ) -> ResponseReturns:
        """Play new episodes of all responses and of the mixture.

        Args:
            key: Unique name of these episodes, from which their random seeds are derived.
            responses: R lists with one response for each seat.
            seed: Random seed.
            with_mixture: Whether the mixture is played in all seats, too.
        """
        seats, episodes = self.game.seats, self.sampling.episodes
        matchups, count, group = self._draw(len(responses), with_mixture, derive_named_seed(seed, key, "draws"))
        pool = dict(self.pools)
        for column, seat in enumerate(seats):
            pool[seat.name] = [*self.pools[seat.name], *(tensor[column] for tensor in responses)]
            learns = matchups[:, column] == LEARNER
            number = torch.div(group[learns], len(seats), rounding_mode="floor")
            matchups[learns, column] = len(self.pools[seat.name]) + number
        task = payoff_task(key, self.game, pool, matchups, count, seed, self.sampling)
        results = gather(self.executor, [task])[key]
        sums = torch.zeros((2, len(responses) * len(seats) + 1, len(seats)), dtype=torch.float64)
        sums[0].index_add_(0, group, results.total)
        sums[1].index_add_(0, group, results.square)
        mean = sums[0] / episodes
        variance = ((sums[1] - episodes * mean.square()) / (episodes - 1)).clamp(min=0)
        error = (variance / episodes).sqrt()
        if not with_mixture:
            mean[-1] = error[-1] = torch.nan
        means, errors = (
            tensor[:-1].unflatten(0, (len(responses), len(seats))).diagonal(dim1=1, dim2=2) for tensor in (mean, error)
        )
        return ResponseReturns(means, errors, SeatReturns(mean[-1], error[-1]))

    def _draw(self, responses: int, with_mixture: bool, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """Sample matchups (K, S) with LEARNER for responses, their episodes (K,) and groups (K,).

        The group of seat s in list r of responses is r S + s; the last group is the mixture.
        """
        rng, (marginals, joint) = np.random.default_rng(seed), (self.mixture.marginals, self.mixture.joint)
        single = None if joint is not None else marginals
        draws = [MatchupDistribution.against(self.game, seat.name, single, joint=joint) for seat in self.game.seats]
        draws *= responses
        if with_mixture:
            distribution = self.mixture.distribution()
            profiles = (distribution > NEGLIGIBLE).nonzero()
            draws.append(MatchupDistribution(profiles, distribution[tuple(profiles.T)]))
        matchups, count, group = [], [], []
        for number, draw in enumerate(draws):
            probability = filled(draw.probability).numpy()
            episodes = torch.from_numpy(rng.multinomial(self.sampling.episodes, probability / probability.sum()))
            played = episodes > 0
            matchups.append(draw.matchups[played])
            count.append(episodes[played])
            group.append(torch.full_like(count[-1], number))
        return torch.cat(matchups), torch.cat(count), torch.cat(group)
