"""Alpha-rank: the share of time that evolution under mutation and selection spends at each profile.

Source: Omidshafiei et al. (2019), Alpha-rank: multi-agent evaluation by evolution, https://arxiv.org/abs/1903.01373.
The population of each seat plays one policy. Rare mutants appear in one seat, and replace its population with a
probability that grows with their gain. Constants are as in OpenSpiel's `alpharank`.

A state of the Markov chain is a profile or, with one population, a policy. A move, from `start` to `to`, replaces the
policy of one seat; R is the number of moves. Self-transitions are not stored: a chain that waits has the same
stationary distribution.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.solvers.meta_strategy import MetaStrategy, normalized, of_joint, positive

_DENSE = 4096
"""Largest number of states for a dense solution (4096: 128 MiB); larger chains are iterated as a sparse matrix."""


def alpharank(
    payoffs: Tensor, alpha: float | None = None, m: int = 50, epsilon: float | None = None, symmetric: bool = False
) -> MetaStrategy:
    """Return the stationary distribution over profiles and its marginals, for any number of seats.

    Without `alpha`, it is the limit of infinite alpha, as in OpenSpiel's PSRO (`sweep_pi_vs_epsilon`). A mutant with a
    larger payoff takes over with probability 1 - epsilon, an equal one with 1/2, a smaller one with epsilon, and
    epsilon goes to 0.

    Args:
        payoffs: (S, N_1, ..., N_S).
        alpha: Selection intensity above 0; 100 in OpenSpiel's `compute`. None: the limit of infinite alpha.
        m: Size of a population, at least 2, used with finite alpha.
        epsilon: Fixed epsilon for infinite alpha, which keeps the chain irreducible; None: the limit 0.
        symmetric: Whether one population plays both seats of a symmetric game. Mutants then play against it, and
            there is no joint distribution.

    Raises:
        ConfigError: A setting is out of range, a game declared symmetric is not, or alpha is so large that the chain
            has several stationary distributions.
    """
    if alpha is not None:
        positive("alpharank", alpha=alpha)
        if not m > 1:
            raise ConfigError(f"alpharank: m: expected a population of at least 2, got {m}")
    if epsilon is not None and (alpha is not None or not 0 < epsilon <= 0.5):
        raise ConfigError(f"alpharank: epsilon: expected a number in (0, 0.5] without alpha, got {epsilon}")
    if symmetric:
        _check_symmetric(payoffs)
        start, to, resident, mutant = _policy_moves(payoffs)
        size = payoffs.shape[1]
    else:
        start, to, resident, mutant = _profile_moves(payoffs)
        size = payoffs[0].numel()
    if size == 1:
        masses = payoffs.new_ones(1)
    elif alpha is not None:
        masses = stationary(start, to, _fixation_rates(alpha * (mutant - resident), m), size)
    elif epsilon is not None:
        masses = stationary(start, to, _infinite_alpha_rates(resident, mutant, epsilon), size)
    else:
        masses = _limit_of_epsilon(start, to, resident, mutant, size)
    if symmetric:
        return MetaStrategy((masses, masses))
    return of_joint(masses.reshape(payoffs.shape[1:]))


def stationary(start: Tensor, to: Tensor, rates: Tensor, size: int) -> Tensor:
    """Return the stationary distribution (size,) of a Markov chain with transition probabilities `rates`.

    Args:
        start: (R,) int64, states.
        to: (R,) int64, next states, other than `start`.
        rates: (R,) float64, probabilities up to one common factor.
        size: Number of states.

    Raises:
        ConfigError: There is more than one stationary distribution.
    """
    recurrent = _recurrent_sets(start, to, rates, size)
    if len(recurrent) > 1:
        raise ConfigError(
            f"alpharank: expected one recurrent set of profiles, got {len(recurrent)}; "
            "use a smaller alpha, or alpha=None"
        )
    return _solve(start, to, rates, size, recurrent[0])


def _recurrent_sets(start: Tensor, to: Tensor, rates: Tensor, size: int) -> list[np.ndarray]:
    """Return the sets of states that are never left: the strongly connected components without a move out."""
    possible = (rates > 0).cpu().numpy()
    sources, targets = start.cpu().numpy()[possible], to.cpu().numpy()[possible]
    graph = csr_array((np.ones(len(sources), dtype=np.int8), (sources, targets)), shape=(size, size))
    count, component = connected_components(graph, directed=True, connection="strong")
    has_exit = np.zeros(count, dtype=bool)
    is_exit = component[sources] != component[targets]
    has_exit[component[sources[is_exit]]] = True
    return [np.flatnonzero(component == number) for number in np.flatnonzero(~has_exit)]


def _solve(start: Tensor, to: Tensor, rates: Tensor, size: int, recurrent: np.ndarray) -> Tensor:
    """Return the stationary distribution (size,) of a chain with one set of recurrent states; 0 at the other states."""
    states = torch.as_tensor(recurrent, device=rates.device)
    count = len(states)
    index = torch.full((size,), -1, dtype=torch.int64, device=rates.device)  # of a state among the recurrent ones
    index[states] = torch.arange(count, device=rates.device)
    relevant = (index[start] >= 0) & (rates > 0)
    start, to, rates = index[start[relevant]], index[to[relevant]], rates[relevant]
    outflow = rates.new_zeros(count).index_add_(0, start, rates)
    if count <= _DENSE:
        # Inflow equals outflow in every state. One equation is redundant and replaced by the sum of 1.
        balance = rates.new_zeros(count, count).index_put_((to, start), rates, accumulate=True)
        balance -= torch.diag(outflow)
        balance[-1] = 1
        constants = rates.new_zeros(count)
        constants[-1] = 1
        masses = torch.linalg.solve(balance, constants)
    else:
        masses = _iterate(start, to, rates, outflow)
    return normalized(rates.new_zeros(size).index_copy_(0, states, normalized(masses)))


def _iterate(start: Tensor, to: Tensor, rates: Tensor, outflow: Tensor, steps: int = 200_000) -> Tensor:
    """Return the masses to which the chain converges; it waits half of the time, so that no cycle of two remains."""
    count, pace = len(outflow), 0.5 / outflow.max()
    states = torch.arange(count, device=to.device)
    indices = torch.stack((torch.cat((to, states)), torch.cat((start, states))))
    values = torch.cat((rates * pace, 1 - outflow * pace))
    chain = torch.sparse_coo_tensor(indices, values, (count, count), check_invariants=False)
    masses = outflow.new_full((count,), 1 / count)
    for step in range(steps):
        next_masses = chain @ masses
        if step % 100 == 0 and float((next_masses - masses).abs().sum()) < 1e-13:
            return next_masses
        masses = next_masses / next_masses.sum()
    raise ConfigError(
        f"alpharank: expected convergence within {steps} steps, got none with {count} profiles; use a smaller alpha"
    )


def _limit_of_epsilon(start: Tensor, to: Tensor, resident: Tensor, mutant: Tensor, size: int) -> Tensor:
    """Return the limit of infinite alpha as epsilon goes to 0.

    With one recurrent set at epsilon 0, its distribution is the limit. With several, rare moves between them decide,
    so epsilon is halved until the distribution stays the same.
    """
    rates = _infinite_alpha_rates(resident, mutant, 0.0)
    recurrent = _recurrent_sets(start, to, rates, size)
    if len(recurrent) == 1:
        return _solve(start, to, rates, size, recurrent[0])
    epsilon = 0.5
    masses = stationary(start, to, _infinite_alpha_rates(resident, mutant, epsilon), size)
    for step in range(1, 48):  # to 1e-14, like OpenSpiel
        epsilon /= 2
        previous, masses = masses, stationary(start, to, _infinite_alpha_rates(resident, mutant, epsilon), size)
        if step > 10 and torch.allclose(masses, previous):
            break
    return masses


def _infinite_alpha_rates(resident: Tensor, mutant: Tensor, epsilon: float) -> Tensor:
    """Return the rates of infinite alpha: 1 - epsilon for a better mutant, 1/2 for an equal one, else epsilon."""
    rates = torch.full_like(resident, epsilon).masked_fill_(mutant > resident, 1 - epsilon)
    return rates.masked_fill_(torch.isclose(mutant, resident, rtol=1e-5, atol=1e-14), 0.5)


def _fixation_rates(gain: Tensor, m: int) -> Tensor:
    """Return the fixation probability (1 - exp(-u)) / (1 - exp(-m u)) of a mutant with gain u, 1/m at 0."""
    magnitude = gain.abs()
    ratio = torch.expm1(-magnitude) / torch.expm1(-m * magnitude)
    # For a loss u < 0, exp(-u) and exp(-m u) overflow; their ratio exp(-(m - 1) |u|) is a factor instead.
    rates = torch.where(gain > 0, ratio, ratio * torch.exp(-(m - 1) * magnitude))
    return torch.where(magnitude < 1e-14, 1.0 / m, rates)


def _profile_moves(payoffs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return all changes of one seat's policy, (R,) each: profiles and the seat's payoffs before and after."""
    sizes = payoffs.shape[1:]
    profiles = torch.arange(payoffs[0].numel(), device=payoffs.device).reshape(sizes)
    moves = []
    for seat, size in enumerate(sizes):
        ids = profiles.movedim(seat, -1).reshape(-1, size)
        table = payoffs[seat].movedim(seat, -1).reshape(-1, size)
        pairs = torch.combinations(torch.arange(size, device=payoffs.device), 2)
        old, new = torch.cat((pairs, pairs.flip(1))).T
        moves.append((ids[:, old], ids[:, new], table[:, old], table[:, new]))
    start, to, resident, mutant = (
        torch.cat([part.flatten() for part in column]) for column in zip(*moves, strict=True)
    )
    return start, to, resident, mutant


def _policy_moves(payoffs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return all mutants of one population, (R,) each: policies and their payoffs against each other."""
    table, policies = payoffs[0], torch.arange(payoffs.shape[1], device=payoffs.device)
    start, to = torch.meshgrid(policies, policies, indexing="ij")
    is_move = start != to
    start, to = start[is_move], to[is_move]
    return start, to, table[start, to], table[to, start]


def _check_symmetric(payoffs: Tensor) -> None:
    if payoffs.shape[0] != 2 or payoffs.shape[1] != payoffs.shape[2]:
        raise ConfigError(f"alpharank: symmetric: expected payoffs (2, N, N), got {tuple(payoffs.shape)}")
    if not torch.allclose(payoffs[0], payoffs[1].T, atol=1e-6):
        raise ConfigError("alpharank: symmetric: expected the second seat's payoffs to be the first's transposed")
