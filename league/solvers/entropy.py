"""The distribution of greatest entropy under linear inequalities."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack

from gpu_envs.errors import GpuEnvsError


def max_entropy(limits: np.ndarray | csr_array, tolerance: float = 1e-9, steps: int = 500) -> np.ndarray:
    """The p of greatest entropy with limits @ p <= 0.

    What no feasible p plays is left out first; on the rest the dual, log sum exp(-limits.T @ m) over multipliers m >= 0,
    is attained, and a projected Newton method (Bertsekas 1982) minimises it.

    Args:
        limits: (constraints, N), of the order of 1; a p exists that keeps them.
        tolerance: By how much a limit may be missed.
        steps: Newton steps before it gives up.

    Returns:
        (N,) float64.
    """
    limits = csr_array(limits)
    played = _support(limits)
    limits = limits[:, played]
    limits = limits[np.abs(limits).sum(1) > 0]
    multipliers, damping = np.zeros(limits.shape[0]), 1e-9
    p, height = _gibbs(limits, multipliers)
    for _ in range(steps):
        slope = -(limits @ p)
        free = (multipliers > 0) | (slope < 0)
        if np.abs(np.minimum(slope, multipliers)).max(initial=0) < tolerance:
            break
        rows = limits[free].toarray()
        mean = rows @ p
        curvature = (rows * p) @ rows.T - np.outer(mean, mean)
        curvature[np.diag_indices_from(curvature)] += damping * max(curvature.trace() / len(mean), 1e-12) + 1e-14
        direction = np.zeros_like(multipliers)
        direction[free] = np.linalg.solve(curvature, slope[free])
        for halving in range(40):
            tried = np.maximum(multipliers - direction * 0.5**halving, 0)
            candidate, lower = _gibbs(limits, tried)
            if lower <= height + 1e-4 * slope @ (tried - multipliers):
                break
        else:
            damping *= 100
            if damping > 1e6:  # as low as rounding lets it come
                break
            continue
        damping = max(damping / 10, 1e-12)
        multipliers, p, height = tried, candidate, lower
    worst = (limits @ p).max(initial=0)
    if worst > 1e-6:
        raise GpuEnvsError(f"greatest entropy: not found, a constraint is missed by {worst:.2g}")
    full = np.zeros(len(played))
    full[played] = p
    return full


def _gibbs(limits: csr_array, multipliers: np.ndarray) -> tuple[np.ndarray, float]:
    """The p that multipliers stand for, and the dual's height."""
    logits = -(limits.T @ multipliers)
    top = logits.max()
    weights = np.exp(logits - top)
    total = weights.sum()
    return weights / total, float(np.log(total) + top)


def _support(limits: csr_array, most: float = 1e5) -> np.ndarray:
    """Which entries some feasible p plays: one linear programme over the cone of multiples z of feasible p.

    Feasible p mix, so that one z has them all, and it can be made as large as to have each at least 1: maximise the sum
    of min(z, 1). Entries below 1 / `most` of the others in every p count as not played.
    """
    number = limits.shape[1]
    identity = eye_array(number, format="csr")
    result = linprog(
        c=np.r_[np.zeros(number), -np.ones(number)],
        A_ub=vstack([hstack([limits, csr_array(limits.shape)]), hstack([-identity, identity])]),
        b_ub=np.zeros(limits.shape[0] + number),
        bounds=[(0, most)] * number + [(0, 1)] * number,
        method="highs",
    )
    played = result.x[number:] > 0.5 if result.status == 0 else np.zeros(number, dtype=bool)
    if not played.any():
        raise GpuEnvsError(f"greatest entropy: no distribution keeps the constraints: {result.message}")
    return played
