"""Alpha-rank: the share of time that evolution under mutation and selection spends at each profile.

Source: Omidshafiei et al. (2019), Alpha-rank: multi-agent evaluation by evolution. The population of each seat plays
one policy. Rare mutants appear in one seat, and replace its population with a probability that grows with their gain.
Constants are as in OpenSpiel's `alpharank`.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers.meta_strategy import MetaStrategy, normalized, of_joint, positive

__all__ = ["alpharank", "stationary"]

_DENSE = 4096
"""Largest number of states for a dense solution (4096: 128 MiB); larger chains use powers of a sparse matrix."""


def alpharank(
    payoffs: Tensor, alpha: float | None = None, m: int = 50, epsilon: float | None = None, symmetric: bool = False
) -> MetaStrategy:
    """Return the stationary distribution over profiles and its marginals, for any number of seats.

    Without `alpha`, it is the limit of infinite alpha, as in OpenSpiel's PSRO (`sweep_pi_vs_epsilon`). A mutant with a
    larger payoff takes over with probability 1 - epsilon, an equal one with 1/2, a smaller one with epsilon, and
    epsilon goes to 0.

    Args:
        payoffs: (S, N_1, ..., N_S).
        alpha: Selection intensity; 100 in OpenSpiel's `compute`.
        m: Size of a population, used with finite alpha.
        epsilon: Fixed epsilon for infinite alpha, which keeps the chain irreducible; None: the limit 0.
        symmetric: Whether one population plays both seats of a symmetric game. Mutants then play against it, and
            there is no joint distribution.

    Raises:
        ConfigError: A setting is out of range, a game declared symmetric is not, or alpha is so large that the chain
            has several stationary distributions.
    """
    if alpha is not None:
        positive("alpharank", alpha=alpha, m=m - 1)
    if epsilon is not None and (alpha is not None or not 0 < epsilon <= 0.5):
        raise ConfigError(f"alpharank: epsilon: expected a number in (0, 0.5] without alpha, got {epsilon}")
    if symmetric:
        _check_symmetric(payoffs)
    start, to, resident, mutant = _pairs(payoffs) if symmetric else _neighbors(payoffs)
    size = payoffs.shape[1] if symmetric else payoffs[0].numel()
    if size == 1:
        masses = payoffs.new_ones(1)
    elif alpha is not None:
        masses = stationary(start, to, _fixation(alpha * (mutant - resident), m), size)
    elif epsilon is not None:
        masses = stationary(start, to, _takes_over(resident, mutant, epsilon), size)
    else:
        masses = _limit(start, to, resident, mutant, size)
    if symmetric:
        return MetaStrategy((masses, masses))
    return of_joint(masses.reshape(payoffs.shape[1:]))


def stationary(start: Tensor, to: Tensor, rates: Tensor, size: int) -> Tensor:
    """Return the stationary distribution of a Markov chain with transition probabilities `rates`.

    Args:
        start: (R,) int64, states.
        to: (R,) int64, next states, without self-transitions.
        rates: (R,) float64, probabilities up to one common factor.
        size: Number of states.

    Raises:
        ConfigError: There is more than one stationary distribution.
    """
    sinks = _sinks(start, to, rates, size)
    if len(sinks) > 1:
        raise ConfigError(
            f"alpharank: expected one recurrent set of profiles, got {len(sinks)}; use a smaller alpha, or alpha=None"
        )
    return _solve(start, to, rates, size, sinks[0])


def _solve(start: Tensor, to: Tensor, rates: Tensor, size: int, sink: np.ndarray) -> Tensor:
    """Return the stationary distribution, which is 0 outside the recurrent set of states `sink`."""
    inside = torch.as_tensor(sink, device=rates.device)
    index = torch.full((size,), -1, dtype=torch.int64, device=rates.device)
    index[inside] = torch.arange(len(inside), device=rates.device)
    relevant = (index[start] >= 0) & (rates > 0)
    start, to, rates = index[start[relevant]], index[to[relevant]], rates[relevant]
    number = len(inside)
    leaving = rates.new_zeros(number).index_add_(0, start, rates)
    if number <= _DENSE:
        # Inflow equals outflow in every state. One equation is redundant and replaced by the sum of 1.
        balance = rates.new_zeros(number, number).index_put_((to, start), rates, accumulate=True)
        balance -= torch.diag(leaving)
        balance[-1] = 1
        right = rates.new_zeros(number)
        right[-1] = 1
        masses = torch.linalg.solve(balance, right)
    else:
        masses = _powers(start, to, rates, leaving)
    return normalized(rates.new_zeros(size).index_copy_(0, inside, normalized(masses)))


def _powers(start: Tensor, to: Tensor, rates: Tensor, leaving: Tensor, steps: int = 200_000) -> Tensor:
    """Iterate the chain until convergence, slowed down by half so that it has no cycle of two states."""
    number, pace = len(leaving), 0.5 / leaving.max()
    indices = torch.stack(
        (
            torch.cat((to, torch.arange(number, device=to.device))),
            torch.cat((start, torch.arange(number, device=to.device))),
        )
    )
    chain = torch.sparse_coo_tensor(
        indices, torch.cat((rates * pace, 1 - leaving * pace)), (number, number), check_invariants=False
    )
    masses = leaving.new_full((number,), 1 / number)
    for step in range(steps):
        following = chain @ masses
        if step % 100 == 0 and float((following - masses).abs().sum()) < 1e-13:
            return following
        masses = following / following.sum()
    raise ConfigError(
        f"alpharank: the chain of {number} profiles did not converge in {steps} steps; use a smaller alpha"
    )


def _sinks(start: Tensor, to: Tensor, rates: Tensor, size: int) -> list[np.ndarray]:
    """Return the recurrent sets of states."""
    ways = (rates > 0).cpu().numpy()
    start_, to_ = start.cpu().numpy()[ways], to.cpu().numpy()[ways]
    graph = csr_array((np.ones(len(start_), dtype=np.int8), (start_, to_)), shape=(size, size))
    number, label = connected_components(graph, directed=True, connection="strong")
    left = np.zeros(number, dtype=bool)
    left[label[start_][label[start_] != label[to_]]] = True
    return [np.flatnonzero(label == component) for component in np.flatnonzero(~left)]


def _limit(start: Tensor, to: Tensor, resident: Tensor, mutant: Tensor, size: int) -> Tensor:
    """Return the limit of infinite alpha: directly with one recurrent set, else by halving epsilon."""
    rates = _takes_over(resident, mutant, 0.0)
    sinks = _sinks(start, to, rates, size)
    if len(sinks) == 1:
        return _solve(start, to, rates, size, sinks[0])
    masses, epsilon = None, 0.5
    for step in range(48):  # to 1e-14, like OpenSpiel
        previous, masses = masses, stationary(start, to, _takes_over(resident, mutant, epsilon), size)
        if step > 10 and previous is not None and torch.allclose(masses, previous):
            break
        epsilon /= 2
    assert masses is not None
    return masses


def _takes_over(resident: Tensor, mutant: Tensor, epsilon: float) -> Tensor:
    """Return the rates of infinite alpha: 1 - epsilon for a better mutant, 1/2 for an equal one, else epsilon."""
    rates = torch.full_like(resident, epsilon).masked_fill_(mutant > resident, 1 - epsilon)
    return rates.masked_fill_(torch.isclose(mutant, resident, rtol=1e-5, atol=1e-14), 0.5)


def _fixation(gain: Tensor, m: int) -> Tensor:
    """Return the fixation probability (1 - exp(-u)) / (1 - exp(-m u)) of a mutant with gain u, 1/m at 0."""
    size = gain.abs()
    ratio = torch.expm1(-size) / torch.expm1(-m * size)
    rates = torch.where(gain > 0, ratio, ratio * torch.exp(-(m - 1) * size))
    return torch.where(size < 1e-14, 1.0 / m, rates)


def _neighbors(payoffs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return all changes of one seat's policy: profiles and the seat's payoffs before and after."""
    sizes = payoffs.shape[1:]
    profiles = torch.arange(payoffs[0].numel(), device=payoffs.device).reshape(sizes)
    parts = []
    for seat, size in enumerate(sizes):
        ids = profiles.movedim(seat, -1).reshape(-1, size)
        table = payoffs[seat].movedim(seat, -1).reshape(-1, size)
        pairs = torch.combinations(torch.arange(size, device=payoffs.device), 2)
        old, new = torch.cat((pairs, pairs.flip(1))).T
        parts.append((ids[:, old], ids[:, new], table[:, old], table[:, new]))
    start, to, resident, mutant = (
        torch.cat([part.flatten() for part in column]) for column in zip(*parts, strict=True)
    )
    return start, to, resident, mutant


def _pairs(payoffs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return all mutants of one population: policies and their payoffs against each other before and after."""
    table, size = payoffs[0], payoffs.shape[1]
    start, to = torch.meshgrid(*[torch.arange(size, device=table.device)] * 2, indexing="ij")
    other = start != to
    start, to = start[other], to[other]
    return start, to, table[start, to], table[to, start]


def _check_symmetric(payoffs: Tensor) -> None:
    if payoffs.shape[0] != 2 or payoffs.shape[1] != payoffs.shape[2]:
        raise ConfigError(f"alpharank: symmetric: expected payoffs (2, N, N), got {tuple(payoffs.shape)}")
    if not torch.allclose(payoffs[0], payoffs[1].T, atol=1e-6):
        raise ConfigError("alpharank: symmetric: expected the second seat's payoffs to be the first's transposed")
