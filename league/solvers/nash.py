"""Nash equilibria of two-player zero-sum meta-games, by linear programmes on the host."""

from __future__ import annotations

import contextlib

import numpy as np
from scipy.optimize import linprog
from torch import Tensor

from gpu_envs.errors import GpuEnvsError
from league.solvers.arrays import MetaStrategy, normalised, zero_sum
from league.solvers.entropy import max_entropy

_PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_SLACKS = (1e-9, 1e-7, 1e-6)
"""Of the largest payoff, one after the other: where payoffs were rounded, as to float32, equilibria hang on less."""


def nash(payoffs: Tensor) -> MetaStrategy:
    """A Nash equilibrium; where there are several, the corner of their set that the simplex method finds.

    The minimax theorem of von Neumann (1928) as a linear programme, solved by HiGHS; its dual is the second strategy.

    Args:
        payoffs: (2, N_1, N_2), zero-sum or constant-sum.

    Raises:
        ConfigError: There are not two seats, or the game is not zero-sum.
    """
    table = zero_sum(payoffs, "nash", "cce, ce, alpharank and prd")
    first, second, _ = minimax(table.cpu().numpy())
    return MetaStrategy(tuple(normalised(payoffs.new_tensor(each)) for each in (first, second)))


def max_entropy_nash(payoffs: Tensor) -> MetaStrategy:
    """The Nash equilibrium of greatest entropy: unique, and equal policies share equally.

    Ortiz, Schapire and Kakade (2007), Maximum entropy correlated equilibria; Balduzzi et al. (2018), Re-evaluating
    evaluation, proposition 4.

    Args:
        payoffs: (2, N_1, N_2), zero-sum or constant-sum.

    Raises:
        ConfigError: There are not two seats, or the game is not zero-sum.
    """
    table = zero_sum(payoffs, "max_entropy_nash", "ce and cce").cpu().numpy()
    scale = max(np.abs(table).max(), 1e-300)
    value = minimax(table)[2]
    # Equilibria are exactly the pairs of strategies that guarantee the value, so each seat's is found by itself.
    sides = ((value - table.T) / scale, (table - value) / scale)
    first, second = (_most_entropic(limits) for limits in sides)
    return MetaStrategy(tuple(normalised(payoffs.new_tensor(each)) for each in (first, second)))


def _most_entropic(limits: np.ndarray) -> np.ndarray:
    for slack in _SLACKS[:-1]:
        with contextlib.suppress(GpuEnvsError):  # too little room: more is tried
            return max_entropy(limits - slack, slack)
    return max_entropy(limits - _SLACKS[-1], _SLACKS[-1])


def minimax(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Strategies of both seats and the value of a zero-sum game; `table` (N_1, N_2) is what the first seat earns.

    Raises:
        GpuEnvsError: The linear programme was not solved.
    """
    rows, columns = table.shape
    scale = max(np.abs(table).max(), 1e-300)
    # Maximise v, so that x @ table >= v in every column.
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
        raise GpuEnvsError(f"nash: the linear programme was not solved; try another meta-solver: {result.message}")
    return result.x[:-1], -result.ineqlin.marginals, float(result.x[-1]) * scale
