"""Cross-play of mixtures of policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from league.game import Game
from league.rollout.matchups import simulate_matchups
from trainers.models.policy import PolicyProtocol

__all__ = ["RARE", "PairReturns", "Side", "cross_play"]

RARE = 5e-3
"""Policies of a mixture below this probability are omitted."""


@dataclass(frozen=True)
class Side:
    """Policies and their probabilities by role."""

    policies: Mapping[str, Sequence[PolicyProtocol]]
    weights: Mapping[str, Tensor]

    @classmethod
    def mixture(cls, populations: Mapping[str, Sequence[PolicyProtocol]], marginals: Sequence[Tensor]) -> Side:
        """Return populations with their meta-strategy, one seat per role."""
        policies, weights = {}, {}
        for (role, population), marginal in zip(populations.items(), marginals, strict=True):
            indices = (marginal > RARE).nonzero().flatten().tolist()
            policies[role] = [population[index] for index in indices]
            weights[role] = marginal[indices] / marginal[indices].sum()
        return cls(policies, weights)

    @classmethod
    def uniform(cls, policies: Mapping[str, Sequence[PolicyProtocol]]) -> Side:
        """Return policies with equal probabilities."""
        weights = {
            role: torch.full((len(population),), 1 / len(population), dtype=torch.float64)
            for role, population in policies.items()
        }
        return cls(policies, weights)


class PairReturns(NamedTuple):
    """Mean returns of both seats for P pairs of sides."""

    mean: Tensor
    """(P, 2) float64."""
    error: Tensor
    """(P, 2) float64, standard errors over episodes."""


def cross_play(
    game: Game, sides: Sequence[Side], pairs: Sequence[tuple[int, int]], episodes: int, seed: int = 577_215
) -> PairReturns:
    """Play pairs of sides; the policies of both are sampled for every episode.

    Args:
        game: A two-player game with different roles.
        sides: The sides.
        pairs: Index of the side in the first seat, and in the second.
        episodes: Number of episodes of each pair, at least 2.
        seed: Random seed of the sampled policies and of the episodes.
    """
    roles = [seat.role for seat in game.seats]
    pools = {role: [policy for side in sides for policy in side.policies[role]] for role in roles}
    starts = {role: np.cumsum([0, *(len(side.policies[role]) for side in sides)]) for role in roles}
    rng, matchups, counts, groups = np.random.default_rng(seed), list[Tensor](), list[Tensor](), list[Tensor]()
    for number, pair in enumerate(pairs):
        first, second = (sides[index].weights[role].numpy() for index, role in zip(pair, roles, strict=True))
        share = np.outer(first, second)
        count = torch.from_numpy(rng.multinomial(episodes, (share / share.sum()).ravel()).reshape(share.shape))
        played = count.nonzero()
        offset = torch.tensor([int(starts[role][index]) for index, role in zip(pair, roles, strict=True)])
        matchups.append(played + offset)
        counts.append(count[tuple(played.T)])
        groups.append(torch.full((len(played),), number))
    sampled = simulate_matchups(
        pools, game=game, matchups=torch.cat(matchups).tolist(), episodes=torch.cat(counts).tolist(), seed=seed
    )
    sums = torch.zeros((2, len(pairs), len(roles)), dtype=torch.float64)
    sums[0].index_add_(0, torch.cat(groups), sampled.total)
    sums[1].index_add_(0, torch.cat(groups), sampled.square)
    mean = sums[0] / episodes
    variance = ((sums[1] - episodes * mean.square()) / (episodes - 1)).clamp(min=0)
    return PairReturns(mean, (variance / episodes).sqrt())
