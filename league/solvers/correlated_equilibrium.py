"""Correlated equilibria for any number of seats: joint distributions without profitable deviations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array
from torch import Tensor

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.solvers.max_entropy import max_entropy
from league.solvers.meta_strategy import MetaStrategy, normalized, of_joint

OBJECTIVES = ("max_entropy", "max_welfare")  # of the equilibrium selection
RELAXED = 1e-5
"""Largest gain of an equilibrium, relative to the largest gain of any deviation, if the exact one is not found."""


def ce(payoffs: Tensor, objective: str = "max_entropy") -> MetaStrategy:
    """Return a correlated equilibrium: no seat gains by deviating from the policy recommended to it.

    Source: Aumann (1974), Subjectivity and correlation in randomized strategies; as a meta-solver, Marris et al.
    (2021), Multi-agent training beyond zero-sum with correlated equilibrium meta-solvers.

    Args:
        payoffs: (S, N_1, ..., N_S).
        objective: Selection: "max_entropy" (unique) or "max_welfare" (largest sum of payoffs, a vertex).
    """
    return _best("ce", payoffs, _ce_gains(payoffs.cpu().numpy()), objective)


def cce(payoffs: Tensor, objective: str = "max_entropy") -> MetaStrategy:
    """Return a coarse correlated equilibrium: no seat gains by always playing one policy.

    Source: Moulin and Vial (1978), Strategically zero-sum games; as a meta-solver, Marris et al. (2021).

    Args:
        payoffs: (S, N_1, ..., N_S).
        objective: Selection: "max_entropy" (unique) or "max_welfare" (largest sum of payoffs, a vertex).
    """
    return _best("cce", payoffs, _cce_gains(payoffs.cpu().numpy()), objective)


def _ce_gains(payoffs: np.ndarray) -> csr_array:
    """Return gains of seat s in profile a by policy j if i is recommended: rows (s, i, j), columns a."""
    rows, columns, gains, number = [], [], [], 0
    for ids, table in _seat_by_seat(payoffs):
        size = len(table)
        for i in range(size):
            alternatives = np.delete(np.arange(size), i)
            gains.append((table[alternatives] - table[i]).ravel())
            columns.append(np.tile(ids[i], size - 1))
            rows.append(np.repeat(number + np.arange(size - 1), ids.shape[1]))
            number += size - 1
    return csr_array(
        (np.concatenate(gains), (np.concatenate(rows), np.concatenate(columns))), shape=(number, payoffs[0].size)
    )


def _cce_gains(payoffs: np.ndarray) -> csr_array:
    """Return gains of seat s in profile a by policy j: rows (s, j), columns a."""
    blocks = []
    for ids, table in _seat_by_seat(payoffs):
        block = np.empty((len(table), ids.size))
        block[:, ids] = table[:, None, :] - table[None, :, :]
        blocks.append(block)
    return csr_array(np.concatenate(blocks))


def _seat_by_seat(payoffs: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each seat the indices of the profiles and its payoffs, both (own policies, other seats' profiles)."""
    ids = np.arange(payoffs[0].size).reshape(payoffs.shape[1:])
    for seat, table in enumerate(payoffs):
        size = table.shape[seat]
        yield np.moveaxis(ids, seat, 0).reshape(size, -1), np.moveaxis(table, seat, 0).reshape(size, -1)


def _best(solver: str, payoffs: Tensor, gains: csr_array, objective: str) -> MetaStrategy:
    if objective not in OBJECTIVES:
        raise ConfigError(f"{solver}: objective: expected {' or '.join(OBJECTIVES)}, got {objective!r}")
    limits = len(gains.indptr) - 1
    gains = gains / max(np.abs(gains.data).max(initial=0), 1e-300)
    if objective == "max_entropy":
        try:
            joint = max_entropy(gains)
        except GpuEnvsError:  # many best responses with almost equal payoffs leave hardly any interior
            joint = max_entropy(gains, RELAXED)
    else:
        welfare = payoffs.sum(0).flatten().cpu().numpy()
        result = linprog(
            c=-welfare / max(np.abs(welfare).max(), 1e-300),
            A_ub=gains,
            b_ub=np.zeros(limits),
            A_eq=np.ones((1, len(welfare))),
            b_eq=[1.0],
            method="highs",
        )
        if result.status != 0:
            raise GpuEnvsError(
                f"{solver}: the linear program was not solved; try another meta-solver: {result.message}"
            )
        joint = result.x
    return of_joint(normalized(payoffs.new_tensor(joint)).reshape(payoffs.shape[1:]))
