"""The distribution of maximum entropy under linear inequalities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack

from gpu_envs.errors import GpuEnvsError


def max_entropy(limits: np.ndarray | csr_array, slack: float = 1e-9, steps: int = 200) -> np.ndarray:
    """Return the distribution p of maximum entropy with limits @ p <= slack.

    Entries that are 0 in every feasible p are removed first. The rest is solved by a primal-dual interior-point method.
    Source: Boyd and Vandenberghe, Convex optimization, section 11.7.

    Args:
        limits: (constraints, N), of order 1; a p with limits @ p <= 0 exists.
        slack: Relaxation of the constraints, so that the feasible set has an interior.
        steps: Largest number of Newton steps.

    Returns:
        (N,) float64.

    Raises:
        GpuEnvsError: The problem was not solved.
    """
    limits = csr_array(limits)
    played = _support(limits)
    limits = csr_array(limits[:, played])
    limits = csr_array(limits[abs(limits).sum(1) > 0])
    full = np.zeros(len(played))
    full[played] = _interior(limits, slack, steps)
    return full


def _interior(limits: Any, slack: float, steps: int) -> np.ndarray:
    """Minimize sum p log p, where every entry of the optimum is above 0."""
    constraints, number = limits.shape
    p = np.full(number, 1 / number)
    room = np.maximum(slack - limits @ p, 0.1)
    force, level = np.full(constraints, 0.1), 0.0
    for _ in range(steps):
        pull = np.log(p) + 1 + level + limits.T @ force  # 0 at the optimum, like `miss` and `excess`
        miss, excess = limits @ p + room - slack, p.sum() - 1
        gap = room @ force
        if max(np.abs(p * pull).max(), np.abs(miss).max(initial=0), abs(excess), gap) < slack:
            return p / p.sum()
        target = 0.1 * gap / max(constraints, 1)
        stiff = force / room
        curvature = (limits.T @ (limits.multiply(stiff[:, None]))).toarray()
        curvature[np.diag_indices(number)] += 1 / p
        descent = -pull - limits.T @ (target / room - force + stiff * miss)
        # In torch, which respects its number of threads.
        factor, failed = torch.linalg.cholesky_ex(torch.from_numpy(curvature))
        if failed:
            raise GpuEnvsError(
                "max_entropy: the feasible set is too small for the interior-point method; try another meta-solver"
            )
        solution = torch.cholesky_solve(torch.from_numpy(np.stack((descent, np.ones(number)), axis=1)), factor)
        moved, spread = solution.numpy().T
        rise = (moved.sum() + excess) / spread.sum()
        moved = moved - rise * spread
        opened = -miss - limits @ moved
        pressed = target / room - force - stiff * opened
        length = min(_reach(p, moved), _reach(room, opened), _reach(force, pressed))
        p, room, force = p + length * moved, room + length * opened, force + length * pressed
        level += length * rise
    raise GpuEnvsError(f"max_entropy: not found in {steps} steps; try another meta-solver")


def _reach(values: np.ndarray, moves: np.ndarray) -> float:
    """Return the share of a step that keeps all values above 0."""
    down = moves < 0
    return min(1.0, 0.99 * float((values[down] / -moves[down]).min(initial=np.inf)))


def _support(limits: Any, bound: float = 1e5) -> np.ndarray:
    """Return which entries are above 0 in some feasible p, by one linear program.

    Multiples z of feasible p form a cone that is closed under sums, so that one large z is at least 1 in all of these
    entries. The program maximizes the sum of min(z, 1). Entries below 1 / `bound` of the others in every p count as 0.
    """
    number = limits.shape[1]
    identity = eye_array(number, format="csr")
    result = linprog(
        c=np.r_[np.zeros(number), -np.ones(number)],
        A_ub=vstack([hstack([limits, csr_array(limits.shape)]), hstack([-identity, identity])]),
        b_ub=np.zeros(limits.shape[0] + number),
        bounds=[(0, bound)] * number + [(0, 1)] * number,
        method="highs",
    )
    played = result.x[number:] > 0.5 if result.status == 0 else np.zeros(number, dtype=bool)
    if not played.any():
        raise GpuEnvsError(f"max_entropy: no distribution satisfies the constraints: {result.message}")
    return played
