"""Groups of players that learn in the same worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from league.game import Game
from league.leagues.player import Match
from league.rollout.matchup_distribution import LEARNER, MatchupDistribution

__all__ = ["SEPARATOR", "TrainingGroup", "group_key", "shared_matchups"]

SEPARATOR = "+"
"""Separator of the players' names in the key of a group."""

TrainingGroup = tuple[str, ...]
"""Names of learning players with different roles, which learn in the same worlds."""


def group_key(group: TrainingGroup) -> str:
    """Return the name of a group's training."""
    return SEPARATOR.join(group)


def shared_matchups(
    game: Game,
    group: Mapping[str, str],
    matches: Mapping[str, Sequence[Match]],
    members: Mapping[str, Sequence[str]],
) -> MatchupDistribution:
    """Return the matchups of a group.

    Every player has its matches in the given proportions. An episode in which two players of the group meet is
    training data of both if both want the match, so that self-play takes half the environment steps.

    Args:
        game: Game with two seats.
        group: Names of the players by role.
        matches: Matches of each player, with probabilities above 0 that sum to 1. An opponent may occur repeatedly.
        members: Names of all players by role, in the order of the opponent pools.
    """
    rows: dict[tuple[tuple[int, ...], tuple[bool, ...]], float] = {}

    def add(row: Sequence[int], learns: Sequence[bool], weight: float) -> None:
        if weight > 0:
            key = tuple(row), tuple(learns)
            rows[key] = rows.get(key, 0.0) + weight

    wanted = {name: dict[str, float]() for name in group.values()}
    for name, shares in wanted.items():
        for match in matches[name]:
            shares[match.opponent] = shares.get(match.opponent, 0.0) + match.probability
    for role, name in group.items():
        seats = game.seats_of(role)
        for opponent, probability in wanted[name].items():
            if opponent == name:  # the player has both seats
                add([LEARNER] * 2, [True] * 2, probability)
                continue
            partner = wanted.get(opponent, {})
            shared = min(probability, partner.get(name, 0.0))
            if shared and name < opponent:  # once per pair
                add([LEARNER] * 2, [True] * 2, shared)
            facing = next((seat.role for seat in game.seats if seat.role != role), role)
            index = LEARNER if opponent in wanted else members[facing].index(opponent)
            for seat in seats:
                row, learns = [index] * 2, [False] * 2
                row[seat], learns[seat] = LEARNER, True
                add(row, learns, (probability - shared) / len(seats))
    keys = list(rows)
    return MatchupDistribution(
        torch.tensor([row for row, _ in keys]),
        torch.tensor([rows[key] for key in keys], dtype=torch.float64),
        torch.tensor([learns for _, learns in keys]),
    )
