"""Nash equilibria of two-player zero-sum meta-games by linear programs on the host."""

from __future__ import annotations

import contextlib

import numpy as np
from scipy.optimize import linprog
from torch import Tensor

from gpu_envs.errors import GpuEnvsError
from league.solvers.max_entropy import max_entropy
from league.solvers.meta_strategy import MetaStrategy, normalized, zero_sum

_PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_SLACKS = (1e-9, 1e-7, 1e-6)
"""Slacks to try in turn, relative to the largest payoff; rounded payoffs (float32) need larger ones."""


def nash(payoffs: Tensor) -> MetaStrategy:
    """Return a Nash equilibrium; of several, the vertex of their set that the simplex method finds.

    Source: minimax theorem of von Neumann (1928), as a linear program whose dual solution is the second strategy.

    Args:
        payoffs: (2, N_1, N_2), zero-sum or constant-sum.

    Raises:
        ConfigError: There are not two seats, or the game is not zero-sum.
    """
    table = zero_sum(payoffs, "nash", "cce, ce, alpharank and prd")
    first, second, _ = minimax(table.cpu().numpy())
    return MetaStrategy(tuple(normalized(payoffs.new_tensor(weights)) for weights in (first, second)))


def max_entropy_nash(payoffs: Tensor) -> MetaStrategy:
    """Return the Nash equilibrium of maximum entropy, which is unique and treats equal policies equally.

    Source: Ortiz, Schapire and Kakade (2007), Maximum entropy correlated equilibria; Balduzzi et al. (2018),
    Re-evaluating evaluation, proposition 4.

    Args:
        payoffs: (2, N_1, N_2), zero-sum or constant-sum.

    Raises:
        ConfigError: There are not two seats, or the game is not zero-sum.
    """
    table = zero_sum(payoffs, "max_entropy_nash", "ce and cce").cpu().numpy()
    scale = max(np.abs(table).max(), 1e-300)
    value = minimax(table)[2]
    # Equilibria are the pairs of strategies that guarantee the value, so each seat's strategy is solved separately.
    sides = ((value - table.T) / scale, (table - value) / scale)
    first, second = (_most_entropic(limits) for limits in sides)
    return MetaStrategy(tuple(normalized(payoffs.new_tensor(weights)) for weights in (first, second)))


def _most_entropic(limits: np.ndarray) -> np.ndarray:
    for slack in _SLACKS[:-1]:
        with contextlib.suppress(GpuEnvsError):  # infeasible: try a larger slack
            return max_entropy(limits - slack, slack)
    return max_entropy(limits - _SLACKS[-1], _SLACKS[-1])


def minimax(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the strategies of both seats and the value of a zero-sum game with first-seat payoffs `table` (N_1, N_2).

    Raises:
        GpuEnvsError: The linear program was not solved.
    """
    rows, columns = table.shape
    scale = max(np.abs(table).max(), 1e-300)
    # Maximize v, so that x @ table >= v in every column.
    result = linprog(
        c=np.r_[np.zeros(rows), -1.0],
        A_ub=np.c_[-table.T / scale, np.ones(columns)],
        b_ub=np.zeros(columns),
        A_eq=np.r_[np.ones(rows), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs-ds",
        options=_PRECISE,
    )
    if result.status != 0:
        raise GpuEnvsError(f"nash: the linear program was not solved; try another meta-solver: {result.message}")
    return result.x[:-1], -result.ineqlin.marginals, float(result.x[-1]) * scale
