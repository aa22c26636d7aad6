"""Play repeated in thought: every seat learns from what it would have earned, and what was played is averaged.

In two-player zero-sum games the averages approach a Nash equilibrium. In others no-regret learning only promises that
the joint play approaches a coarse correlated equilibrium, which the marginals need not be.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers.arrays import MetaStrategy, positive
from league.solvers.host import Host


def fictitious_play(payoffs: Tensor, iterations: int = 10_000) -> MetaStrategy:
    """Each seat answers best what the others have played on average so far.

    Brown (1951), Iterative solution of games by fictitious play; all seats at once, first against uniform play. Ties go
    to the lowest index. Any number of seats.

    Args:
        payoffs: (S, N_1, ..., N_S).
        iterations: Best responses per seat.
    """
    positive("fictitious_play", iterations=iterations)
    host = Host(payoffs)
    counts, average = host.zeros(), host.uniform()
    for iteration in range(int(iterations)):
        for count, value in zip(counts, host.deviations(average), strict=True):
            count[value.argmax()] += 1.0
        average = [count / (iteration + 1) for count in counts]
    return host.strategy(average)


def regret_matching(payoffs: Tensor, iterations: int = 100_000, gamma: float = 1e-6) -> MetaStrategy:
    """Policies are played in proportion to how much they are regretted.

    Hart and Mas-Colell (2000), A simple adaptive procedure leading to correlated equilibrium; constants, exploration
    and average as in OpenSpiel's `regret_matching`. Any number of seats.

    Args:
        payoffs: (S, N_1, ..., N_S).
        iterations: Steps; the start counts in the average too.
        gamma: Share of uniform play mixed in.

    Raises:
        ConfigError: A setting out of its range.
    """
    positive("regret_matching", iterations=iterations)
    if not 0 <= gamma <= 1:
        raise ConfigError(f"regret_matching: gamma = {gamma}: expected 0 to 1")
    host = Host(payoffs)
    start = host.uniform()
    played, totals = start, [each * 1.0 for each in start]
    regrets = [zero + 1e-6 for zero in host.zeros()]
    for _ in range(int(iterations)):
        values = host.deviations(played)
        played = [_match(r, value, own, gamma) for r, value, own in zip(regrets, values, played, strict=True)]
        for total, own in zip(totals, played, strict=True):
            total += own
    return host.strategy(totals)


def _match(regret, value, own, gamma: float):
    """The next distribution; `regret` grows in place."""
    regret += value - value @ own
    wanted = regret.clip(min=0)
    total = wanted.sum()
    nothing = 1.0 * (total <= 0)  # then uniform, without a branch: on a device nothing is read back
    share = wanted / (total + nothing)
    return (1 - nothing) * ((1 - gamma) * share + gamma / len(own)) + nothing / len(own)


def multiplicative_weights(payoffs: Tensor, iterations: int = 10_000, rate: float | None = None) -> MetaStrategy:
    """Weights grow exponentially in what each policy would have earned (Hedge).

    Freund and Schapire (1999), Adaptive game playing using multiplicative weights. Payoffs count by their range over a
    seat's cells, so that the answer does not depend on their unit. Any number of seats.

    Args:
        payoffs: (S, N_1, ..., N_S).
        iterations: Steps that are averaged.
        rate: Of a range of 1; None: sqrt(8 ln N / iterations), for which regret is at most sqrt(ln N / 2 iterations).
    """
    positive("multiplicative_weights", iterations=iterations, **({} if rate is None else {"rate": rate}))
    spread = payoffs.flatten(1).max(1).values - payoffs.flatten(1).min(1).values
    host = Host(payoffs / spread.clamp(min=1e-300).reshape(-1, *[1] * (payoffs.dim() - 1)))
    rates = [rate or math.sqrt(8 * math.log(max(size, 2)) / iterations) for size in payoffs.shape[1:]]
    gains, totals, played = host.zeros(), host.zeros(), host.uniform()
    for _ in range(int(iterations)):
        for gain, total, value, own in zip(gains, totals, host.deviations(played), played, strict=True):
            gain += value
            total += own
        played = [_softmax(each * gain) for each, gain in zip(rates, gains, strict=True)]
    return host.strategy(totals)


def _softmax(logits):
    if isinstance(logits, Tensor):
        return torch.softmax(logits, 0)
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()
