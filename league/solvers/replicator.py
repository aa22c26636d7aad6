"""Replicator dynamics: the share of a policy grows with its payoff above the average."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers.meta_strategy import MetaStrategy, positive
from league.solvers.no_regret import SeatPayoffs
from trainers.base.prefix_sum import prefix_sum

RANGE = 2.0
"""Range of each seat's scaled payoffs: a win is 1 and a loss -1, for which OpenSpiel chose its constants."""
STABLE = 1.0
"""Largest product of step size and range of payoffs; beyond it, shares leave the simplex and become NaN."""
ROUNDING = 1e-12
"""Smallest range of a seat's payoffs, relative to the largest one, that is not taken for rounding errors."""


def prd(payoffs: Tensor, iterations: int = 100_000, dt: float = 1e-3, gamma: float = 1e-6) -> MetaStrategy:
    """Run projected replicator dynamics from uniform play, averaged over all steps.

    Source: Lanctot et al. (2017), A unified game-theoretic approach to multiagent reinforcement learning, section 3.1.
    Constants and average are as in OpenSpiel's `projected_replicator_dynamics`. It supports any number of seats.
    The payoffs of each seat are scaled to a range of 2, so that the result does not depend on their unit.

    Args:
        payoffs: (S, N_1, ..., N_S), of any range.
        iterations: Number of steps; the average includes the initial distributions.
        dt: Step size, at most 0.5.
        gamma: Smallest probability of a policy.
    """
    return _replicate("prd", payoffs, iterations, dt, gamma)


def replicator(payoffs: Tensor, iterations: int = 100_000, dt: float = 1e-3) -> MetaStrategy:
    """Run replicator dynamics from uniform play, averaged over all steps, for any number of seats.

    Source: Taylor and Jonker (1978), Evolutionary stable strategies and game dynamics. It is prd with gamma = 0.
    """
    return _replicate("replicator", payoffs, iterations, dt, 0.0)


def _replicate(solver: str, payoffs: Tensor, iterations: int, dt: float, gamma: float) -> MetaStrategy:
    positive(solver, iterations=iterations, dt=dt)
    if not 0 <= gamma * max(payoffs.shape[1:]) < 1:
        raise ConfigError(
            f"{solver}: gamma: expected a number in [0, 1 / {max(payoffs.shape[1:])} policies), got {gamma}"
        )
    dt = min(dt, STABLE / RANGE)
    host = SeatPayoffs(_scaled(payoffs))
    shares = host.uniform()
    totals = [strategy * 1.0 for strategy in shares]
    for _ in range(int(iterations) if payoffs[0].numel() > 1 else 0):  # with one policy per seat there is nothing to do
        values = host.deviations(shares)
        shares = [
            _project(strategy + dt * strategy * (value - value @ strategy), gamma)
            for strategy, value in zip(shares, values, strict=True)
        ]
        for total, strategy in zip(totals, shares, strict=True):
            total += strategy
    return host.strategy(totals)


def _scaled(payoffs: Tensor) -> Tensor:
    """Return payoffs (S, N_1, ..., N_S) of which each seat's range from -1 to 1, or are all 0 if they are equal."""
    seats = (-1, *[1] * (payoffs.dim() - 1))
    largest = payoffs.flatten(1).abs().amax(1).reshape(seats)
    payoffs = torch.where(largest > 0, payoffs / largest, 0.0)  # a difference of large numbers could be infinite
    lowest, highest = (bound.reshape(seats) for bound in payoffs.flatten(1).aminmax(dim=1))
    return (payoffs - (lowest + highest) / 2) * (RANGE / (highest - lowest).clamp(min=ROUNDING))


def _project(point, least: float):
    """Return the nearest distribution without shares below `least`; the sum of `point` is 1 up to rounding.

    Source: Wang and Carreira-Perpinan (2013), Projection onto the probability simplex, shifted by `least`.
    """
    point = point / point.sum()  # with negative payoffs, rounding errors would grow
    if isinstance(point, np.ndarray):
        if point.min() >= least:
            return point
        ordered, ranks = np.sort(point)[::-1], np.arange(1, len(point) + 1)
        sums = ordered.cumsum()
    else:
        ordered = torch.sort(point, descending=True).values
        ranks = torch.arange(1, len(point) + 1, device=point.device)
        sums = prefix_sum(ordered)
    shifts = (1 - sums - (len(point) - ranks) * least) / ranks
    last = (ordered + shifts > least).sum() - 1
    return (point + shifts[last]).clip(min=least)
