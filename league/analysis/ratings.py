"""Ratings of policies: Elo, Nash averaging, alpha-rank. Pure functions of payoffs, float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers import MetaStrategy, checked, deviations, solve

__all__ = ["NashAverage", "alpharank_ratings", "elo", "nash_average"]


def elo(score: Tensor, count: Tensor, prior: float = 0.01, mean: float = 0.0) -> Tensor:
    """Compute Elo ratings by maximum likelihood of the Bradley-Terry model, where a draw is half a win.

    P(i beats j) = 1 / (1 + 10^((r_j - r_i) / 400)). The likelihood is maximized by Newton's method. Source: Elo (1978),
    "The rating of chessplayers"; Hunter (2004), "MM algorithms for generalized Bradley-Terry models", equation 3, with
    the smoothing of OpenSpiel's `elo`.

    Args:
        score: (N, N) mean score of i against j, a draw 1/2, with score[i, j] + score[j, i] = 1. Or (N, M) for two
            populations that play only each other; then ratings of the first population come first.
        count: (N, N) or (N, M) episodes of each cell, 0 if not played. In a square table both [i, j] and [j, i] count,
            and the diagonal is ignored.
        prior: Wins added to both policies of each pair, so that undefeated policies have finite ratings; 0: none.
        mean: Mean of all ratings.

    Returns:
        (N,) or (N + M,) ratings; a difference of 400 points means odds of 10 to 1.

    Raises:
        ConfigError: Shapes differ; a score of a played cell is outside [0, 1]; scores of a pair do not sum to 1; or
            the likelihood has no maximum without a prior.
    """
    if score.dim() != 2 or score.shape != count.shape:
        raise ConfigError(f"elo: expected score and count (N, M), got {tuple(score.shape)} and {tuple(count.shape)}")
    count = count.to(torch.float64)
    played = count > 0
    if not bool((count >= 0).all()):
        raise ConfigError("elo: expected counts of 0 or more")
    if not bool(((score >= 0) & (score <= 1) | ~played).all()):
        raise ConfigError("elo: expected scores from 0 to 1 in every cell that was played")
    wins = torch.where(played, score.to(torch.float64), 0.0) * count
    losses = count - wins
    if score.shape[0] == score.shape[1]:
        mutual = played & played.T & ~torch.eye(len(score), dtype=torch.bool, device=score.device)
        if bool((((score + score.T) - 1).abs() > 1e-6)[mutual].any()):
            raise ConfigError("elo: expected scores of a pair to sum to 1; take the mean over swapped seats")
        wins, losses = (matrix - torch.diag(matrix.diagonal()) for matrix in (wins, losses))
        won = wins + losses.T
    else:
        first, second = wins.shape
        won = wins.new_zeros(first + second, first + second)
        won[:first, first:], won[first:, :first] = wins, losses.T
    won = won + prior * (1 - torch.eye(len(won), dtype=won.dtype, device=won.device))
    if prior <= 0 and not _connected(won):
        raise ConfigError(
            "elo: without a prior, expected wins and losses between every two sets of policies; pass a prior, "
            "such as 0.01"
        )
    return _bradley_terry(won) * (400 / math.log(10)) + mean


def _connected(won: Tensor) -> bool:
    """Return whether wins connect every policy to every other one (Hunter 2004, assumption 1)."""
    reach = ((won > 0) | torch.eye(len(won), dtype=torch.bool, device=won.device)).to(torch.float64)
    for _ in range(max(1, len(won) - 1).bit_length()):
        reach = (reach @ reach > 0).to(torch.float64)
    return bool((reach > 0).all())


def _bradley_terry(won: Tensor, steps: int = 200) -> Tensor:
    """Compute log-strengths with mean 0 whose expected wins are `won` (N, N), by damped Newton steps."""
    games = won + won.T
    strength = won.new_zeros(len(won))

    def likelihood(at: Tensor) -> Tensor:
        return (won * torch.nn.functional.logsigmoid(at[:, None] - at)).sum()

    for _ in range(steps):
        chance = torch.sigmoid(strength[:, None] - strength)
        slope = (won - games * chance).sum(1)
        if float(slope.abs().max()) < 1e-10 * max(1.0, float(games.max())):
            break
        weight = games * chance * (1 - chance)
        # + 1 fixes the mean, which the likelihood does not depend on
        step = torch.linalg.solve(torch.diag(weight.sum(1)) - weight + weight.mean() + 1e-300, slope)
        start, length = likelihood(strength), 1.0
        while length > 1e-9 and float(likelihood(strength + length * step) - start) < 0:
            length /= 2
        strength = strength + length * step
    return strength - strength.mean()


@dataclass(frozen=True)
class NashAverage:
    """Ratings against the maximum-entropy Nash equilibrium."""

    ratings: tuple[Tensor, ...]
    """Payoff of each policy against the other seats' equilibrium: one tensor (N_s,) per seat."""
    strategy: MetaStrategy
    """Maximum-entropy Nash equilibrium."""


def nash_average(payoffs: Tensor) -> NashAverage:
    """Compute Nash averages: payoffs against the maximum-entropy Nash equilibrium, invariant to copies of policies.

    Source: Balduzzi et al. (2018), "Re-evaluating evaluation", proposition 4, and appendix D for two populations,
    without its normalization of tasks.

    Args:
        payoffs: (2, N_1, N_2), zero-sum or constant-sum; two populations may differ in size.

    Raises:
        ConfigError: The game does not have two seats, or is not zero-sum.
    """
    strategy = solve("max_entropy_nash", payoffs)
    return NashAverage(tuple(deviations(checked(payoffs), strategy.marginals)), strategy)


def alpharank_ratings(payoffs: Tensor, **settings: float) -> tuple[Tensor, ...]:
    """Compute alpha-rank as a rating: the stationary probability of each policy, one tensor (N_s,) per seat.

    Source: Omidshafiei et al. (2019), "Alpha-rank: multi-agent evaluation by evolution". Any number of seats is
    possible.

    Args:
        payoffs: (S, N_1, ..., N_S).
        **settings: Settings of the meta-solver "alpharank".
    """
    return solve("alpharank", payoffs, **settings).marginals
