"""Episodes of learned responses against a mixture, and of the mixture itself, in one batch of matchups."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from league.evaluation.payoff_filler import PayoffSamplingConfig, payoff_task
from league.executors.coordinator import gather
from league.executors.tasks import Executor
from league.game import Game
from league.matchups.matchup_distribution import LEARNER, NEGLIGIBLE, MatchupDistribution, filled
from league.solvers import MetaStrategy
from league.storage.run_store import derive_named_seed
from trainers.models.policy import PolicyProtocol


class ResponseReturns(NamedTuple):
    """Mean returns of R responses of every seat, each against the mixture of the other seats."""

    mean: Tensor
    """(R, S) float64, means over episodes of the seat's response."""
    error: Tensor
    """(R, S) float64, their standard errors."""
    value: Tensor
    """(S,) float64, means over episodes in which all seats play the mixture; NaN if there are none."""
    value_error: Tensor
    """(S,) float64, their standard errors."""


def play_responses(
    game: Game,
    pools: Mapping[str, Sequence[PolicyProtocol]],
    mixture: MetaStrategy,
    key: str,
    responses: Sequence[Sequence[PolicyProtocol]],
    sampling: PayoffSamplingConfig,
    executor: Executor,
    seed: int,
    with_mixture: bool = True,
) -> ResponseReturns:
    """Play new episodes of responses of single seats against a mixture of the other seats.

    Args:
        game: Game to play.
        pools: Policies by role.
        mixture: Distribution over policies of the pools.
        key: Unique name of these episodes, from which their random seeds are derived.
        responses: R lists with one response for each seat.
        sampling: Number of episodes of each response and of the mixture, device and number of worlds.
        executor: Executor of the simulation.
        seed: Random seed.
        with_mixture: Whether the mixture is played in all seats, too.
    """
    # one population per seat, because a response plays one seat while the others keep their mixtures
    seats = [dataclasses.replace(seat, role=seat.name) for seat in game.seats]
    pool: dict[str, list[PolicyProtocol]] = {}
    weights, joint = [], mixture.joint
    for axis, (seat, weight) in enumerate(zip(game.seats, mixture.marginals, strict=True)):
        support = (weight > NEGLIGIBLE).nonzero().flatten()
        pool[seat.name] = [pools[seat.role][index] for index in support.tolist()]
        weights.append(weight[support] / weight[support].sum())
        joint = None if joint is None else joint.index_select(axis, support)
    game, mixture = dataclasses.replace(game, seats=tuple(seats)), MetaStrategy(tuple(weights), joint)
    draw_seed, episodes = derive_named_seed(seed, key, "draws"), sampling.episodes
    matchups, count, group = _draw_matchups(game, mixture, len(responses), with_mixture, episodes, draw_seed)
    for column, seat in enumerate(seats):
        learns = matchups[:, column] == LEARNER
        number = torch.div(group[learns], len(seats), rounding_mode="floor")
        matchups[learns, column] = len(pool[seat.name]) + number
        pool[seat.name] += [of_seats[column] for of_seats in responses]
    task = payoff_task(key, game, pool, matchups, count, seed, sampling)
    results = gather(executor, [task])[key]
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
    return ResponseReturns(means, errors, mean[-1], error[-1])


def _draw_matchups(
    game: Game, mixture: MetaStrategy, responses: int, with_mixture: bool, episodes: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample matchups (K, S) with LEARNER for responses, their episodes (K,) and groups (K,).

    The group of seat s in list r of responses is r S + s; the last group is the mixture.
    """
    rng, joint = np.random.default_rng(seed), mixture.joint
    marginals = None if joint is not None else mixture.marginals
    draws = [MatchupDistribution.against(game, seat.name, marginals, joint=joint) for seat in game.seats]
    draws *= responses
    if with_mixture:
        distribution = mixture.distribution()
        profiles = (distribution > NEGLIGIBLE).nonzero()
        draws.append(MatchupDistribution(profiles, distribution[tuple(profiles.T)]))
    matchups, count, group = [], [], []
    for number, draw in enumerate(draws):
        probability = filled(draw.probability).numpy()
        drawn = torch.from_numpy(rng.multinomial(episodes, probability / probability.sum()))
        played = drawn > 0
        matchups.append(draw.matchups[played])
        count.append(drawn[played])
        group.append(torch.full_like(count[-1], number))
    return torch.cat(matchups), torch.cat(count), torch.cat(group)
