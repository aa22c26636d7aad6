"""Groups of players that learn in the same worlds, and their lineups: the players of all seats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from league.game import Game
from league.leagues.player import Match
from league.rollout.matchup_distribution import LEARNER, MatchupDistribution

__all__ = ["MAX_LINEUPS", "SEPARATOR", "TrainingGroup", "group_key", "shared_matchups"]

SEPARATOR = "+"
"""Separator of the players' names in the key of a group."""
MAX_LINEUPS = 4096
"""Largest number of lineups of one player, up to the seats that it takes; of more lineups this many are sampled."""

TrainingGroup = tuple[str, ...]
"""Names of learning players with different roles, which learn in the same worlds."""


def group_key(group: TrainingGroup) -> str:
    """Return the name of a group's training."""
    return SEPARATOR.join(group)


def shared_matchups(
    game: Game,
    group: Mapping[str, str],
    matches: Mapping[str, Mapping[str, Sequence[Match]]],
    members: Mapping[str, Sequence[str]],
    seed: int = 0,
) -> MatchupDistribution:
    """Return the matchups of a group.

    Every player takes the seats of its role equally often; each of the other seats has an opponent from the player's
    matches with the seat's role, independently of the others. An episode in which several players of the group meet is
    training data of all that want this lineup, so that self-play of S roles takes 1/S of the environment steps.

    Args:
        game: Game to play.
        group: Names of the players by role.
        matches: Matches of each player by role of the opponents, with probabilities above 0 that sum to 1. An opponent
            may occur repeatedly.
        members: Names of all players by role, in the order of the opponent pools.
        seed: Random seed of the lineups of a player that has more than `MAX_LINEUPS`.
    """
    lineups_of = {name: _lineups(game, role, name, matches[name], seed) for role, name in group.items()}
    rows: dict[tuple[tuple[int, ...], tuple[bool, ...]], float] = {}
    for name, lineups in lineups_of.items():
        for lineup, own_share in lineups.items():
            shares = {
                player: lineups_of[player].get(lineup, 0.0) for player in dict.fromkeys(lineup) if player in lineups_of
            }
            below = 0.0
            for level in sorted({share for share in shares.values() if 0 < share <= own_share}):
                learners = {player for player, share in shares.items() if share >= level}
                if name == min(learners):  # once per set of learners
                    row = [
                        LEARNER if member in lineups_of else members[seat.role].index(member)
                        for member, seat in zip(lineup, game.seats, strict=True)
                    ]
                    key = tuple(row), tuple(member in learners for member in lineup)
                    rows[key] = rows.get(key, 0.0) + level - below
                below = level
    return MatchupDistribution(
        torch.tensor([row for row, _ in rows]),
        torch.tensor(list(rows.values()), dtype=torch.float64),
        torch.tensor([learns for _, learns in rows]),
    )


def _lineups(
    game: Game, role: str, name: str, matches: Mapping[str, Sequence[Match]], seed: int
) -> dict[tuple[str, ...], float]:
    """Return the probability of every lineup of a player, which names the player of each seat."""
    seats = game.seats_of(role)
    roles = [seat.role for seat in game.seats]
    del roles[seats[0]]  # of the opponents, whichever seat of its role the player takes
    shares: dict[str, dict[str, float]] = {}
    for facing in roles:
        shares[facing] = {}
        for match in matches[facing]:
            shares[facing][match.opponent] = shares[facing].get(match.opponent, 0.0) + match.probability
    probabilities: dict[tuple[str, ...], float] = {}
    for opponents, probability in _opponents(roles, shares, np.random.default_rng([seed, *name.encode()])):
        by_role = {
            facing: [name for name, of in zip(opponents, roles, strict=True) if of == facing] for facing in shares
        }
        for learner_seat in seats:
            left = {facing: iter(names) for facing, names in by_role.items()}
            lineup = tuple(
                name if index == learner_seat else next(left[seat.role]) for index, seat in enumerate(game.seats)
            )
            probabilities[lineup] = probabilities.get(lineup, 0.0) + probability / len(seats)
    return probabilities


def _opponents(
    roles: Sequence[str], shares: Mapping[str, Mapping[str, float]], rng: np.random.Generator
) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the opponents of the other seats, which have these roles, with their probability.

    Of more than `MAX_LINEUPS` combinations of several seats this many are sampled. Every opponent keeps its share of
    each seat, up to the probability of one sample.
    """
    if len(roles) == 1 or math.prod(len(shares[role]) for role in roles) <= MAX_LINEUPS:
        for chosen in itertools.product(*(shares[role].items() for role in roles)):
            yield tuple(opponent for opponent, _ in chosen), math.prod(share for _, share in chosen)
        return
    columns = []
    for role in roles:
        ends = np.cumsum(list(shares[role].values()))
        places = np.searchsorted(ends, ends[-1] * (np.arange(MAX_LINEUPS) + rng.random()) / MAX_LINEUPS, side="right")
        names = list(shares[role])
        columns.append([names[i] for i in rng.permutation(places.clip(max=len(names) - 1))])
    for opponents in zip(*columns, strict=True):
        yield opponents, 1 / MAX_LINEUPS
