"""One number per policy: Elo, Nash averaging, alpha-rank. Pure functions over payoffs, float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers import MetaStrategy, checked, deviations, solve


def elo(score: Tensor, count: Tensor, prior: float = 0.01, mean: float = 0.0) -> Tensor:
    """Elo ratings by maximum likelihood of the Bradley-Terry model; a draw is half a win.

    P(i beats j) = 1 / (1 + 10^((r_j - r_i) / 400)). Elo (1978), The rating of chessplayers; Hunter (2004), MM
    algorithms for generalized Bradley-Terry models, equation 3, with the smoothing of OpenSpiel's
    `elo`; by Newton's method.

    Args:
        score: (N, N): share of the episodes that i won against j, draws half; score[i, j] + score[j, i] = 1.
            (N, M): two populations that only meet each other; ratings of the first come first.
        count: (N, N) or (N, M): episodes of each cell, 0: not played. Of a square table both [i, j] and [j, i] count,
            the diagonal does not.
        prior: Wins that each of a pair is given beforehand, so that who only won has a rating; 0: the bare likelihood.
        mean: Of all ratings.

    Returns:
        (N,) or (N + M,) ratings; 400 points are odds of 10 to 1.

    Raises:
        ConfigError: Shapes differ, a score is outside 0 to 1 or NaN where played, scores of a pair do not sum to 1, or
            without a prior the likelihood has no maximum.
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
        both = played & played.T & ~torch.eye(len(score), dtype=torch.bool, device=score.device)
        if bool((((score + score.T) - 1).abs() > 1e-6)[both].any()):
            raise ConfigError("elo: expected scores of a pair to sum to 1; take the mean over swapped seats")
        wins, losses = (each - torch.diag(each.diagonal()) for each in (wins, losses))
        won = wins + losses.T
    else:
        first, second = wins.shape
        won = wins.new_zeros(first + second, first + second)
        won[:first, first:], won[first:, :first] = wins, losses.T
    won = won + prior * (1 - torch.eye(len(won), dtype=won.dtype, device=won.device))
    if prior <= 0 and not _connected(won):
        lacking = "everybody has to have lost to somebody of every other set of policies"
        raise ConfigError(f"elo: without a prior, {lacking}; give one, such as 0.01")
    return _bradley_terry(won) * (400 / math.log(10)) + mean


def _connected(won: Tensor) -> bool:
    """Every policy leads to every other by wins (Hunter 2004, assumption 1)."""
    reach = ((won > 0) | torch.eye(len(won), dtype=torch.bool, device=won.device)).to(torch.float64)
    for _ in range(max(1, len(won) - 1).bit_length()):
        reach = (reach @ reach > 0).to(torch.float64)
    return bool((reach > 0).all())


def _bradley_terry(won: Tensor, steps: int = 200) -> Tensor:
    """Log-strengths of mean 0 for which the expected wins are those of `won` (N, N): concave, by damped Newton."""
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
        # + 1 fixes the mean, along which the likelihood is flat.
        step = torch.linalg.solve(torch.diag(weight.sum(1)) - weight + weight.mean() + 1e-300, slope)
        before, length = likelihood(strength), 1.0
        while length > 1e-9 and float(likelihood(strength + length * step) - before) < 0:
            length /= 2
        strength = strength + length * step
    return strength - strength.mean()


@dataclass(frozen=True)
class NashAverage:
    """Ratings under the equilibrium of greatest entropy."""

    ratings: tuple[Tensor, ...]
    """What each policy earns against the others' equilibrium: one (N_s,) per seat."""
    strategy: MetaStrategy
    """The equilibrium."""


def nash_average(payoffs: Tensor) -> NashAverage:
    """Nash averaging: policies are rated against the equilibrium of greatest entropy, which copies do not change.

    Balduzzi et al. (2018), Re-evaluating evaluation, proposition 4, and appendix D for two populations, without its
    normalisation of tasks.

    Args:
        payoffs: (2, N_1, N_2), zero-sum or constant-sum; two populations may differ in size.

    Raises:
        ConfigError: There are not two seats, or the game is not zero-sum.
    """
    strategy = solve("max_entropy_nash", payoffs)
    return NashAverage(tuple(deviations(checked(payoffs), strategy.marginals)), strategy)


def alpharank(payoffs: Tensor, **settings: float) -> tuple[Tensor, ...]:
    """Alpha-rank as a rating: how much of the time evolution plays each policy, one (N_s,) per seat.

    Omidshafiei et al. (2019), Alpha-rank: multi-agent evaluation by evolution. Any number of seats; `settings` of the
    meta-solver alpharank.
    """
    return solve("alpharank", payoffs, **settings).marginals
