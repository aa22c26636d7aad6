"""Metrics of populations and of the games between their policies. Pure functions of payoffs, float64."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers import checked, solve
from league.solvers.meta_strategy import zero_sum


def relative_population_performance(payoffs: Tensor) -> float:
    """Compute the first population's payoff against the second if both play their equilibrium.

    Source: Balduzzi et al. (2019), "Open-ended learning in symmetric zero-sum games", definition 3. Above 0, the first
    population is stronger.

    Args:
        payoffs: (2, N_1, N_2), zero-sum; the populations may differ in size.

    Raises:
        ConfigError: The game does not have two seats, or is not zero-sum.
    """
    payoffs = checked(payoffs)
    table = zero_sum(payoffs, "relative population performance", "ratings by alpharank")
    first, second = solve("nash", payoffs).marginals
    return float(first @ table @ second)


def effective_diversity(payoffs: Tensor) -> float:
    """Compute effective diversity: p.T max(A, 0) p at the maximum-entropy Nash equilibrium p.

    Source: Balduzzi et al. (2019), "Open-ended learning in symmetric zero-sum games", definition 4. It is 0 if one
    policy dominates. It grows with the number of ways to win and with their payoff.

    Args:
        payoffs: (2, N, N), symmetric zero-sum: one population plays both seats.

    Raises:
        ConfigError: The game is not symmetric and zero-sum.
    """
    table = _antisymmetric(payoffs, "effective diversity")
    p = solve("max_entropy_nash", torch.stack((table, -table))).marginals[0]
    return float(p @ table.clamp(min=0) @ p)


def expected_cardinality(payoffs: Tensor) -> float:
    """Compute the expected cardinality of a population: Tr(I - (L + I)^-1) with L = M M.T.

    This is the expected size of a sample of the determinantal point process with kernel L, and measures how many
    policies differ in their payoffs. It depends on the unit of payoffs. Source: Perez-Nieves et al. (2021), "Modelling
    behavioural diversity for learning in open-ended games", section 4.

    Args:
        payoffs: (N, M) payoff of each policy against each opponent; N and M may differ.

    Raises:
        ConfigError: The payoffs have another number of dimensions, or are not finite.
    """
    if payoffs.dim() != 2:
        raise ConfigError(
            f"expected cardinality: expected one table (N, M), got {tuple(payoffs.shape)}; take payoffs[seat]"
        )
    if not bool(payoffs.isfinite().all()):
        raise ConfigError("expected cardinality: expected finite payoffs, got NaN; simulate the missing cells first")
    squares = torch.linalg.svdvals(payoffs.to(torch.float64)).square()
    return float((squares / (1 + squares)).sum())


class GameDecomposition(NamedTuple):
    """Shares of the transitive and the cyclic part of a game."""

    transitive_share: float
    """Norm of the transitive part divided by the payoffs' norm; 0 if all payoffs are 0."""
    cyclic_share: float
    """Norm of the cyclic part divided by the payoffs' norm; 0 if all payoffs are 0."""


def decompose_game(payoffs: Tensor) -> GameDecomposition:
    """Decompose a symmetric zero-sum game into a transitive and a cyclic part (Hodge decomposition).

    A = grad(r) + rot(A) with r_i the mean of row i and grad(r)_ij = r_i - r_j. The squared shares of both parts have
    sum 1. With log-odds of win probabilities as payoffs, a game of Elo ratings is purely transitive.

    Source: Balduzzi et al. (2018), "Re-evaluating evaluation", section 2; Jiang et al. (2011), "Statistical ranking and
    combinatorial Hodge theory".

    Args:
        payoffs: (2, N, N), symmetric zero-sum: one population plays both seats.

    Raises:
        ConfigError: The game is not symmetric and zero-sum.
    """
    table = _antisymmetric(payoffs, "transitive and cyclic share")
    ratings = table.mean(1)
    transitive = ratings[:, None] - ratings
    cyclic = table - transitive
    norm = max(float(table.norm()), 1e-300)
    return GameDecomposition(float(transitive.norm()) / norm, float(cyclic.norm()) / norm)


def _antisymmetric(payoffs: Tensor, measure: str) -> Tensor:
    """Return the first seat's payoffs (N, N), made exactly antisymmetric."""
    payoffs = checked(payoffs)
    table = zero_sum(payoffs, measure, "ratings by alpharank")
    if table.shape[0] != table.shape[1]:
        raise ConfigError(
            f"{measure}: expected one population on both seats, payoffs (2, N, N), got {tuple(payoffs.shape)}"
        )
    gap = float((table + table.T).abs().max())
    if gap > 1e-6 * max(1.0, float(table.abs().max())):
        raise ConfigError(
            f"{measure}: expected a symmetric game, but payoffs of swapped policies differ by {gap:.3g}; "
            "take the mean over both seats"
        )
    return (table - table.T) / 2
