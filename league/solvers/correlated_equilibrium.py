"""Correlated equilibria: joint distributions over profiles that no seat gains by leaving. Any number of seats."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array
from torch import Tensor

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.solvers.arrays import MetaStrategy, normalised, of_joint
from league.solvers.entropy import max_entropy

OBJECTIVES = ("max_entropy", "max_welfare")  # which of many equilibria is chosen


def ce(payoffs: Tensor, objective: str = "max_entropy") -> MetaStrategy:
    """A correlated equilibrium: whoever is told its policy of a drawn profile does best to play it.

    Aumann (1974), Subjectivity and correlation in randomized strategies; as a meta-solver Marris et al. (2021),
    Multi-agent training beyond zero-sum with correlated equilibrium meta-solvers.

    Args:
        payoffs: (S, N_1, ..., N_S).
        objective: Which of them: "max_entropy" (unique) or "max_welfare" (the greatest sum of payoffs, a corner).
    """
    return _best("ce", payoffs, _told(payoffs.cpu().numpy()), objective)


def cce(payoffs: Tensor, objective: str = "max_entropy") -> MetaStrategy:
    """A coarse correlated equilibrium: nobody gains by playing one policy whatever profile is drawn.

    Moulin and Vial (1978), Strategically zero-sum games; as a meta-solver Marris et al. (2021).

    Args:
        payoffs: (S, N_1, ..., N_S).
        objective: Which of them: "max_entropy" (unique) or "max_welfare" (the greatest sum of payoffs, a corner).
    """
    return _best("cce", payoffs, _untold(payoffs.cpu().numpy()), objective)


def _told(payoffs: np.ndarray) -> csr_array:
    """What seat s gains on profile a by policy j when it is told i: one row per s, i and j, one column per profile."""
    rows, columns, gains, number = [], [], [], 0
    for ids, own in _seat_by_seat(payoffs):
        size = len(own)
        for i in range(size):
            others = np.delete(np.arange(size), i)
            gains.append((own[others] - own[i]).ravel())
            columns.append(np.tile(ids[i], size - 1))
            rows.append(np.repeat(number + np.arange(size - 1), ids.shape[1]))
            number += size - 1
    return csr_array(
        (np.concatenate(gains), (np.concatenate(rows), np.concatenate(columns))), shape=(number, payoffs[0].size)
    )


def _untold(payoffs: np.ndarray) -> csr_array:
    """What seat s gains on profile a by policy j: one row per s and j, one column per profile."""
    blocks = []
    for ids, own in _seat_by_seat(payoffs):
        block = np.empty((len(own), ids.size))
        block[:, ids] = own[:, None, :] - own[None, :, :]
        blocks.append(block)
    return csr_array(np.concatenate(blocks))


def _seat_by_seat(payoffs: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of the profiles and payoffs of each seat, both (own policies, profiles of the others)."""
    ids = np.arange(payoffs[0].size).reshape(payoffs.shape[1:])
    for seat, own in enumerate(payoffs):
        size = own.shape[seat]
        yield np.moveaxis(ids, seat, 0).reshape(size, -1), np.moveaxis(own, seat, 0).reshape(size, -1)


def _best(solver: str, payoffs: Tensor, gains: csr_array, objective: str) -> MetaStrategy:
    if objective not in OBJECTIVES:
        raise ConfigError(f"{solver}: objective = {objective!r}: expected {' or '.join(OBJECTIVES)}")
    limits = len(gains.indptr) - 1
    gains = gains / max(np.abs(gains.data).max(initial=0), 1e-300)
    if objective == "max_entropy":
        joint = max_entropy(gains)
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
                f"{solver}: the linear programme was not solved; try another meta-solver: {result.message}"
            )
        joint = result.x
    return of_joint(normalised(payoffs.new_tensor(joint)).reshape(payoffs.shape[1:]))
