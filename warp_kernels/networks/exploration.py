"""Policies of off-policy learners: deterministic ones, and exploration around any policy.

As in ``trainers.models.discrete_heads``, ``trainers.models.continuous_heads`` and ``trainers.algorithms.off_policy``.
"""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.networks.activations import vector
from warp_kernels.networks.categorical import ILLEGAL, in_order, legal_of
from warp_kernels.networks.distribution import Distribution
from warp_kernels.networks.gaussian import normal

__all__ = ["action_values", "deterministic_tanh", "explored_box", "explored_choices"]

COIN: int = wp.constant(255)
"""Draw that decides whether an action is random; no distribution has so many components."""
LEAST_LEGAL: float = wp.constant(0.5 * float(ILLEGAL))
"""Illegal actions have values and logits below it."""


def action_values(choices: int, length: int, masked: bool, dueling: bool) -> Distribution:
    """Return the policy that takes the legal action of the largest value, the first one of several.

    Args:
        choices: Number of choices n.
        length: Length of the vector of outputs.
        masked: Some choices are illegal, see ``mask``.
        dueling: Outputs are a state value, which does not change the order of actions, and n advantages. Otherwise they
            are n values.
    """
    V, legal = vector(length), legal_of(choices, length, masked)

    @wp.func(inline=True)
    def prepare(o: V, mask: wp.array2d(dtype=wp.bool), row: int):
        v = o
        if wp.static(dueling):
            for j in range(choices):
                v[j] = o[j + 1]
        return legal(v, mask, row)

    @wp.func(inline=True)
    def sample(
        v: V,
        rng: philox.Stream,
        agent: int,
        greedy: int,
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
        row: int,
    ):
        top = float(v[0])
        pick = int(0)
        for j in range(1, choices):
            if v[j] > top:
                top = v[j]
                pick = j
        choice[row, 0] = wp.int64(pick)

    certain = _certain(V)
    return Distribution(prepare, sample, certain, certain, None)


def deterministic_tanh(size: int, length: int) -> Distribution:
    """Return the policy whose actions are outputs, which a tanh squashes later.

    Args:
        size: Number of dimensions K.
        length: Length of the vector of outputs.
    """
    V = vector(length)

    @wp.func(inline=True)
    def prepare(o: V, mask: wp.array2d(dtype=wp.bool), row: int):
        return o

    @wp.func(inline=True)
    def sample(
        v: V,
        rng: philox.Stream,
        agent: int,
        greedy: int,
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
        row: int,
    ):
        for k in range(size):
            control[row, k] = v[k]

    certain = _certain(V)
    return Distribution(prepare, sample, certain, certain, None)


def explored_choices(policy: Distribution, sizes: tuple[int, ...], length: int, column: int) -> Distribution:
    """Return a discrete policy that takes uniformly random legal actions with a probability.

    Args:
        policy: The policy without exploration.
        sizes: Number of choices of each component.
        length: Length of the vector of outputs.
        column: Entry of the outputs with the probability.
    """
    V, starts = vector(length), [sum(sizes[:k]) for k in range(len(sizes))]

    def uniform(k: int, start: int, size: int) -> Any:
        @wp.func(inline=True)
        def choose(v: V, rng: philox.Stream, agent: int, greedy: int, choice: wp.array2d(dtype=wp.int64), row: int):
            count = int(0)
            for j in range(size):
                if v[start + j] > LEAST_LEGAL:
                    count += 1
            left = int(philox.below(philox.bits(rng, agent, philox.POLICY, k // 4)[k % 4], count))
            pick = int(0)
            for j in range(size):
                if v[start + j] > LEAST_LEGAL:
                    if left == 0:
                        pick = j
                    left -= 1
            choice[row, k] = wp.int64(pick)

        return choose

    choose_all = in_order(
        [uniform(k, start, size) for k, (start, size) in enumerate(zip(starts, sizes, strict=True))], V
    )
    take = policy.sample

    @wp.func(inline=True)
    def sample(
        v: V,
        rng: philox.Stream,
        agent: int,
        greedy: int,
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
        row: int,
    ):
        if _is_random(rng, agent, greedy, v[column]):
            choose_all(v, rng, agent, greedy, choice, row)
        else:
            take(v, rng, agent, greedy, choice, control, row)

    certain = _certain(V)
    return Distribution(policy.prepare, sample, certain, certain, None)


def explored_box(policy: Distribution, size: int, length: int, column: int, noisy: bool) -> Distribution:
    """Return a continuous policy that takes uniformly random actions with a probability.

    Its actions are squashed, in [-1, 1].

    Args:
        policy: The policy without exploration, before the tanh.
        size: Number of dimensions K.
        length: Length of the vector of outputs.
        column: Entry of the outputs with the probability.
        noisy: The next entry is the standard deviation of normal noise on squashed actions.
    """
    V, take = vector(length), policy.sample

    @wp.func(inline=True)
    def sample(
        v: V,
        rng: philox.Stream,
        agent: int,
        greedy: int,
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
        row: int,
    ):
        if _is_random(rng, agent, greedy, v[column]):
            for k in range(size):
                control[row, k] = 2.0 * philox.unit(philox.bits(rng, agent, philox.POLICY, k)[0]) - 1.0
        else:
            take(v, rng, agent, greedy, choice, control, row)
            for k in range(size):
                code = wp.tanh(control[row, k])
                if wp.static(noisy):
                    if greedy == 0:
                        code = wp.clamp(code + v[column + 1] * normal(rng, agent, k), -1.0, 1.0)
                control[row, k] = code

    certain = _certain(V)
    return Distribution(policy.prepare, sample, certain, certain, None)


@wp.func(inline=True)
def _is_random(rng: philox.Stream, agent: int, greedy: int, probability: float):
    return greedy == 0 and philox.unit(philox.bits(rng, agent, philox.POLICY, COIN)[0]) < probability


def _certain(V: type) -> Any:
    """Build the log-probability, and the entropy, of a policy that has none."""

    @wp.func(inline=True)
    def zero(v: V, choice: wp.array2d(dtype=wp.int64), control: wp.array2d(dtype=float), row: int):
        return float(0.0)

    return zero
