"""Ratings of policies: Elo and Nash averaging. Pure functions of payoffs, float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers import checked, deviations, solve


def elo(score: Tensor, count: Tensor, prior: float = 0.01) -> Tensor:
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

    Returns:
        (N,) or (N + M,) ratings with mean 0; a difference of 400 points means odds of 10 to 1.

    Raises:
        ConfigError: Shapes differ; a score of a played cell is outside [0, 1]; or scores of a pair do not sum to 1.
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
    return _bradley_terry(won) * (400 / math.log(10))


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


def nash_average(payoffs: Tensor) -> list[Tensor]:
    """Compute the payoff of each policy against the maximum-entropy Nash equilibrium, one tensor (N_s,) per seat.

    Copies of policies do not change it.

    Source: Balduzzi et al. (2018), "Re-evaluating evaluation", proposition 4, and appendix D for two populations,
    without its normalization of tasks.

    Args:
        payoffs: (2, N_1, N_2), zero-sum or constant-sum; two populations may differ in size.

    Raises:
        ConfigError: The game does not have two seats, or is not zero-sum.
    """
    return deviations(checked(payoffs), solve("max_entropy_nash", payoffs).marginals)
