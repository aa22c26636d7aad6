"""No-regret learning in the meta-game: every seat learns from the payoffs of all its policies; play is averaged.

In two-player zero-sum games the averages converge to a Nash equilibrium. In other games only the joint play converges
to a coarse correlated equilibrium, not necessarily the product of the marginals.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers.meta_strategy import MetaStrategy, normalized, positive


def fictitious_play(payoffs: Tensor, iterations: int = 10_000) -> MetaStrategy:
    """Run fictitious play: each seat best-responds to the average play of the others.

    Source: Brown (1951), Iterative solution of games by fictitious play. All seats respond simultaneously, first to
    uniform play. Ties go to the lowest index. It supports any number of seats.

    Args:
        payoffs: (S, N_1, ..., N_S).
        iterations: Number of best responses per seat.
    """
    positive("fictitious_play", iterations=iterations)
    host = SeatPayoffs(payoffs)
    counts, average = host.zeros(), host.uniform()
    for iteration in range(int(iterations)):
        for count, value in zip(counts, host.deviations(average), strict=True):
            count[value.argmax()] += 1.0
        average = [count / (iteration + 1) for count in counts]
    return host.strategy(average)


def regret_matching(payoffs: Tensor, iterations: int = 100_000, gamma: float = 1e-6) -> MetaStrategy:
    """Run regret matching: probabilities of policies are proportional to their positive regrets.

    Source: Hart and Mas-Colell (2000), A simple adaptive procedure leading to correlated equilibrium. Constants,
    exploration and average are as in OpenSpiel's `regret_matching`. It supports any number of seats.

    Args:
        payoffs: (S, N_1, ..., N_S).
        iterations: Number of steps; the average includes the initial distributions.
        gamma: Share of uniform play.

    Raises:
        ConfigError: A setting is out of range.
    """
    positive("regret_matching", iterations=iterations)
    if not 0 <= gamma <= 1:
        raise ConfigError(f"regret_matching: gamma: expected a number in [0, 1], got {gamma}")
    host = SeatPayoffs(payoffs)
    start = host.uniform()
    played, totals = start, [strategy * 1.0 for strategy in start]
    regrets = [zero + 1e-6 for zero in host.zeros()]
    for _ in range(int(iterations)):
        values = host.deviations(played)
        played = [_match(r, value, strategy, gamma) for r, value, strategy in zip(regrets, values, played, strict=True)]
        for total, strategy in zip(totals, played, strict=True):
            total += strategy
    return host.strategy(totals)


def _match(regret, value, strategy, gamma: float):
    """Return the next distribution; `regret` is updated in place."""
    regret += value - value @ strategy
    excess = regret.clip(min=0)
    total = excess.sum()
    nothing = 1.0 * (total <= 0)  # then uniform, without a branch and host synchronization
    share = excess / (total + nothing)
    return (1 - nothing) * ((1 - gamma) * share + gamma / len(strategy)) + nothing / len(strategy)


def multiplicative_weights(payoffs: Tensor, iterations: int = 10_000, rate: float | None = None) -> MetaStrategy:
    """Run Hedge: weights grow exponentially with the cumulative payoff of each policy.

    Source: Freund and Schapire (1999), Adaptive game playing using multiplicative weights. Payoffs are divided by their
    range over a seat's cells, so that the result does not depend on their unit. It supports any number of seats.

    Args:
        payoffs: (S, N_1, ..., N_S).
        iterations: Number of averaged steps.
        rate: Learning rate for payoffs of range 1; None: sqrt(8 ln N / iterations), for which the regret is at most
            sqrt(ln N / 2 iterations).
    """
    positive("multiplicative_weights", iterations=iterations, **({} if rate is None else {"rate": rate}))
    spread = payoffs.flatten(1).max(1).values - payoffs.flatten(1).min(1).values
    host = SeatPayoffs(payoffs / spread.clamp(min=1e-300).reshape(-1, *[1] * (payoffs.dim() - 1)))
    rates = [rate or math.sqrt(8 * math.log(max(size, 2)) / iterations) for size in payoffs.shape[1:]]
    gains, totals, played = host.zeros(), host.zeros(), host.uniform()
    for _ in range(int(iterations)):
        for gain, total, value, strategy in zip(gains, totals, host.deviations(played), played, strict=True):
            gain += value
            total += strategy
        played = [_softmax(seat_rate * gain) for seat_rate, gain in zip(rates, gains, strict=True)]
    return host.strategy(totals)


def _softmax(logits):
    if isinstance(logits, Tensor):
        return torch.softmax(logits, 0)
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


class SeatPayoffs:
    """Payoffs of each seat: numpy arrays on the host, tensors on other devices.

    Numpy takes a fifth of torch's time for small arrays. Solvers use operations that both support.
    """

    def __init__(self, payoffs: Tensor):
        """Split payoffs (S, N_1, ..., N_S) by seats."""
        self.device: torch.device = payoffs.device
        on_host = payoffs.device.type == "cpu"
        # Each seat's own axis is first; the other axes are contracted from the last one.
        tables = [payoff.movedim(seat, 0).contiguous() for seat, payoff in enumerate(payoffs)]
        self.tables: list[Any] = [table.numpy() for table in tables] if on_host else tables
        self.axes: list[list[int]] = [
            [t for t in reversed(range(len(tables))) if t != seat] for seat in range(len(tables))
        ]

    def zeros(self) -> list[Any]:
        """Return one vector of zeros per seat."""
        if isinstance(self.tables[0], np.ndarray):
            return [np.zeros(len(table)) for table in self.tables]
        return [torch.zeros(len(table), dtype=torch.float64, device=self.device) for table in self.tables]

    def uniform(self) -> list[Any]:
        """Return one uniform distribution per seat."""
        return [zero + 1 / len(zero) for zero in self.zeros()]

    def deviations(self, strategies: list[Any]) -> list[Any]:
        """Return the expected payoff of each policy against the strategies of the other seats."""
        values = []
        for table, axes in zip(self.tables, self.axes, strict=True):
            for axis in axes:
                table = table @ strategies[axis]
            values.append(table)
        return values

    def strategy(self, weights: list[Any]) -> MetaStrategy:
        """Return weights as a meta-strategy on the device of the payoffs."""
        return MetaStrategy(tuple(normalized(torch.as_tensor(weight, device=self.device)) for weight in weights))
