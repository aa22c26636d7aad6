"""Draw margin of asymmetric games: the difference of returns that counts as a draw."""

from __future__ import annotations

import torch
from torch import Tensor

from league.evaluation.payoff_filler import PayoffSamplingConfig, payoff_task
from league.executors import RemoteTask
from league.game import Game
from league.leagues.league_state import LeagueState
from league.rollout.matchups import MatchupResults

__all__ = ["balanced_draw_margin", "draw_margin_task", "measured_draw_margin", "measures_draw_margin"]


def measures_draw_margin(game: Game, given: float | None) -> bool:
    """Return whether a league measures its draw margin: none is given, and two seats differ and are not zero-sum."""
    return given is None and len(game.seats) == 2 and not game.zero_sum and not game.shared


def balanced_draw_margin(difference: Tensor) -> float:
    """Compute the draw margin for which both seats win equally often.

    The mean is unsuitable if some episodes have large differences, and the median if many episodes have the same one.

    Args:
        difference: (N,) return of the first seat minus that of the second, for each episode.
    """
    values = difference.double().sort().values
    seen = values.unique()
    lines = torch.cat([seen, (seen[1:] + seen[:-1]) / 2])
    lost, won = torch.searchsorted(values, lines), len(values) - torch.searchsorted(values, lines, right=True)
    return float(lines[(won - lost).abs().argmin()])


def draw_margin_task(
    key: str, state: LeagueState, episodes: int, sampling: PayoffSamplingConfig, seed: int
) -> RemoteTask:
    """Return a task that plays single episodes between the first learning, or latest, player of each seat."""
    pair = []
    for seat in state.game.seats:
        members = state.members(seat.role)
        pair.append(members.index([*state.roster.learning(seat.role), members[-1]][0]))
    ones = torch.ones(episodes, dtype=torch.int64)
    return payoff_task(key, state.game, state.pools(), torch.tensor([pair] * episodes), ones, seed, sampling)


def measured_draw_margin(results: MatchupResults) -> float:
    """Compute the draw margin from the results of single episodes."""
    first, second = results.total.T
    return balanced_draw_margin(first - second)
