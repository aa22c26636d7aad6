"""What a population is worth and how its game is shaped. Pure functions over payoffs, float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers import checked, solve
from league.solvers.arrays import zero_sum


def relative_population_performance(payoffs: Tensor) -> float:
    """What the first population earns against the second where both play their equilibrium.

    Balduzzi et al. (2019), Open-ended learning in symmetric zero-sum games, definition 3. Above 0: the first
    population is the stronger one.

    Args:
        payoffs: (2, N_1, N_2), zero-sum; the two populations that meet may differ in size.

    Raises:
        ConfigError: There are not two seats, or the game is not zero-sum.
    """
    payoffs = checked(payoffs)
    table = zero_sum(payoffs, "relative population performance", "ratings by alpharank")
    first, second = solve("nash", payoffs).marginals
    return float(first @ table @ second)


def effective_diversity(payoffs: Tensor) -> float:
    """How much the policies that matter beat each other: p.T max(A, 0) p at the equilibrium p of greatest entropy.

    Balduzzi et al. (2019), Open-ended learning in symmetric zero-sum games, definition 4. 0 where one policy is
    the best against all; grows with the number of ways to win and their payoff.

    Args:
        payoffs: (2, N, N), symmetric zero-sum: one population plays both seats.

    Raises:
        ConfigError: The game is not symmetric and zero-sum.
    """
    table = _antisymmetric(payoffs, "effective diversity")
    p = solve("max_entropy_nash", torch.stack((table, -table))).marginals[0]
    return float(p @ table.clamp(min=0) @ p)


def expected_cardinality(payoffs: Tensor) -> float:
    """How many different ways to play a population has, by what its policies earn: Tr(I - (L + I)^-1), L = M M.T.

    The expected size of a draw from the determinantal point process with kernel L. Perez-Nieves et al. (2021),
    Modelling behavioural diversity for learning in open-ended games, section 4. Depends on the payoffs' unit.

    Args:
        payoffs: (N, M): what each policy earns against each opponent; N and M may differ.

    Raises:
        ConfigError: Not a table, or NaN.
    """
    if payoffs.dim() != 2:
        raise ConfigError(
            f"expected cardinality: expected one table (N, M), got {tuple(payoffs.shape)}; take payoffs[seat]"
        )
    if not bool(payoffs.isfinite().all()):
        raise ConfigError("expected cardinality: payoffs are NaN or infinite; simulate the missing cells first")
    squares = torch.linalg.svdvals(payoffs.to(torch.float64)).square()
    return float((squares / (1 + squares)).sum())


@dataclass(frozen=True)
class Shape:
    """A game as a sum: who is better than whom, and what goes round in circles."""

    ratings: Tensor
    """(N,): mean payoff of each policy."""
    transitive: Tensor
    """(N, N): differences of ratings."""
    cyclic: Tensor
    """(N, N): the remainder, of which every row sums to 0."""
    transitive_share: float
    """Norm of the transitive part over that of the payoffs; 0 if all are 0. Squares of both shares sum to 1."""
    cyclic_share: float
    """Norm of the cyclic part over that of the payoffs; 0 if all are 0."""


def shape(payoffs: Tensor) -> Shape:
    """The Hodge decomposition of a symmetric zero-sum game into a transitive and a cyclic part.

    A = grad(r) + rot(A), r_i the mean of row i, grad(r)_ij = r_i - r_j. Balduzzi et al. (2018), Re-evaluating
    evaluation, section 2; Jiang et al. (2011), Statistical ranking and combinatorial Hodge theory. Win probabilities
    become payoffs by their log-odds: then a game of Elo ratings is wholly transitive.

    Args:
        payoffs: (2, N, N), symmetric zero-sum: one population plays both seats.

    Raises:
        ConfigError: The game is not symmetric and zero-sum.
    """
    table = _antisymmetric(payoffs, "transitive and cyclic share")
    ratings = table.mean(1)
    transitive = ratings[:, None] - ratings
    cyclic = table - transitive
    whole = max(float(table.norm()), 1e-300)
    return Shape(ratings, transitive, cyclic, float(transitive.norm()) / whole, float(cyclic.norm()) / whole)


def _antisymmetric(payoffs: Tensor, measure: str) -> Tensor:
    """Payoffs (N, N) of the first seat, exactly antisymmetric."""
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
