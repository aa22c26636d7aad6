"""Replicator dynamics: shares of a population grow by how much better than average they earn."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers.arrays import MetaStrategy, positive
from league.solvers.host import Host

STABLE = 1.0
"""The step times the range of the payoffs, at most: beyond it shares leave the simplex, and at last are NaN."""


def prd(payoffs: Tensor, iterations: int = 100_000, dt: float = 1e-3, gamma: float = 1e-6) -> MetaStrategy:
    """Projected replicator dynamics from uniform play, averaged over all steps.

    Lanctot et al. (2017), A unified game-theoretic approach to multiagent reinforcement learning, section 3.1;
    constants and average as in OpenSpiel's `projected_replicator_dynamics`. Any number of seats.

    Args:
        payoffs: (S, N_1, ..., N_S), of any range.
        iterations: Steps; the start counts in the average too.
        dt: Size of a step; smaller where payoffs are so large that shares would jump (`STABLE`).
        gamma: Least probability of a policy.
    """
    return _replicate("prd", payoffs, iterations, dt, gamma)


def replicator(payoffs: Tensor, iterations: int = 100_000, dt: float = 1e-3) -> MetaStrategy:
    """Replicator dynamics from uniform play, averaged over all steps. Any number of seats.

    Taylor and Jonker (1978), Evolutionary stable strategies and game dynamics; prd without a least probability.
    """
    return _replicate("replicator", payoffs, iterations, dt, 0.0)


def _replicate(solver: str, payoffs: Tensor, iterations: int, dt: float, gamma: float) -> MetaStrategy:
    positive(solver, iterations=iterations, dt=dt)
    if not 0 <= gamma * max(payoffs.shape[1:]) < 1:
        raise ConfigError(f"{solver}: gamma = {gamma}: expected 0 to less than 1 / {max(payoffs.shape[1:])} policies")
    spread = float((payoffs.flatten(1).amax(1) - payoffs.flatten(1).amin(1)).max())
    dt = min(dt, STABLE / max(spread, 1e-300))
    host = Host(payoffs)
    shares = host.uniform()
    totals = [each * 1.0 for each in shares]
    for _ in range(int(iterations) if payoffs[0].numel() > 1 else 0):  # nobody has a choice yet
        values = host.deviations(shares)
        shares = [
            _project(own + dt * own * (value - value @ own), gamma) for own, value in zip(shares, values, strict=True)
        ]
        for total, own in zip(totals, shares, strict=True):
            total += own
    return host.strategy(totals)


def _project(point, least: float):
    """The nearest distribution with no share below `least`; `point` sums to 1, but for rounding.

    Wang and Carreira-Perpinan (2013), Projection onto the probability simplex, shifted by `least`.
    """
    point = point / point.sum()  # where payoffs are below 0 rounding would grow from step to step
    if isinstance(point, np.ndarray):
        if point.min() >= least:
            return point
        ordered, ranks = np.sort(point)[::-1], np.arange(1, len(point) + 1)
    else:
        ordered = torch.sort(point, descending=True).values
        ranks = torch.arange(1, len(point) + 1, device=point.device)
    shifts = (1 - ordered.cumsum(0) - (len(point) - ranks) * least) / ranks
    kept = (ordered + shifts > least).sum() - 1
    return (point + shifts[kept]).clip(min=least)
