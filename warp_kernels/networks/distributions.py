"""Distributions over actions: samples, log-probabilities, entropies and their gradients, for one row of outputs.

They equal the heads of ``trainers.models.action_heads``, and the exploration of ``trainers.algorithms.off_policy``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.networks.activations import exponential, vector
from warp_kernels.networks.mlp import Mlp, padded


@dataclass(frozen=True)
class Distribution:
    """Warp functions of one distribution over actions; V is the vector of outputs, N the number of rows.

    Stored actions are ``choice`` (N, K) int64, or ``control`` (N, K) float32 before they are clipped or squashed.
    """

    prepare: Any
    """``prepare(o, mask, row) -> V``: what the other functions need of outputs; ``mask`` is (N, choices) bool."""
    sample: Any
    """``sample(v, rng, agent, greedy, choice, control, row)``: write an action; the most probable one with greedy."""
    log_prob: Any
    """``log_prob(v, choice, control, row) -> float``: log-probability, or log-density, of a stored action."""
    entropy: Any
    """``entropy(v, choice, control, row) -> float`` [nats]."""
    gradient: Any
    """``gradient(v, choice, control, row, by_log_prob, by_entropy) -> V``: gradient by the outputs.
    None for policies of off-policy learners, whose log-probabilities are 0."""


ILLEGAL: float = wp.constant(-1.0e9)
"""Logit of an illegal action."""


def categorical(sizes: tuple[int, ...], length: int, masked: bool) -> Distribution:
    """Return one or several independent categoricals over a vector of logits.

    Args:
        sizes: Number of choices of each categorical.
        length: Length of the vector of outputs.
        masked: Some choices are illegal, see ``mask``.
    """
    V, legal, count = vector(length), legal_of(sum(sizes), length, masked), len(sizes)
    starts = [sum(sizes[:k]) for k in range(count)]
    # whole vector registers, also after the last choice
    exponentials = [exponential(length, starts[k], min(starts[k] + padded(sizes[k]), length)) for k in range(count)]

    @wp.func(inline=True)
    def prepare(o: V, mask: wp.array2d(dtype=wp.bool), row: int):
        v = legal(o, mask, row)
        for k in range(count):
            start = wp.static(starts[k])
            end = wp.static(starts[k] + sizes[k])
            top = v[start]
            for j in range(start + 1, end):
                top = wp.max(top, v[j])
            p = wp.static(exponentials[k])(v, top)
            total_mass = float(0.0)
            for j in range(start, end):
                total_mass += p[j]
            shift = top + wp.log(total_mass)
            for j in range(start, end):
                v[j] = v[j] - shift
        return v

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
        for k in range(count):
            start = wp.static(starts[k])
            size = wp.static(sizes[k])
            pick = int(0)
            if greedy == 1:
                top = v[start]
                for j in range(1, size):
                    if v[start + j] > top:
                        top = v[start + j]
                        pick = j
            else:
                word = philox.bits(rng, agent, philox.POLICY, k // 4)[k % 4]
                u = philox.unit(word)
                p = wp.static(exponentials[k])(v, 0.0)
                mass = float(0.0)
                is_drawn = bool(False)
                for j in range(size):
                    mass += p[start + j]
                    # The last possible choice, if rounding leaves the sum below u.
                    if not is_drawn and p[start + j] > 0.0:
                        pick = j
                        is_drawn = u < mass
            choice[row, k] = wp.int64(pick)

    @wp.func(inline=True)
    def log_prob(v: V, choice: wp.array2d(dtype=wp.int64), control: wp.array2d(dtype=float), row: int):
        total = v[int(choice[row, 0])]
        for k in range(1, count):
            total += v[wp.static(starts[k]) + int(choice[row, k])]
        return total

    def entropy_of(k: int) -> Any:
        start, end, exp = starts[k], starts[k] + sizes[k], exponentials[k]

        @wp.func(inline=True)
        def spread(v: V):
            p = exp(v, 0.0)
            total_entropy = float(0.0)
            for j in range(start, end):
                total_entropy -= p[j] * v[j]
            return total_entropy

        return spread

    entropies = [entropy_of(k) for k in range(count)]

    @wp.func(inline=True)
    def entropy(v: V, choice: wp.array2d(dtype=wp.int64), control: wp.array2d(dtype=float), row: int):
        total = float(wp.static(entropies[0])(v))
        for k in range(1, count):
            total += wp.static(entropies[k])(v)
        return total

    @wp.func(inline=True)
    def gradient(
        v: V,
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
        row: int,
        by_log_prob: float,
        by_entropy: float,
    ):
        e = V()
        for k in range(count):
            start = wp.static(starts[k])
            end = wp.static(starts[k] + sizes[k])
            entropy = wp.static(entropies[k])(v)
            column = start + int(choice[row, k])
            p = wp.static(exponentials[k])(v, 0.0)
            for j in range(start, end):
                e[j] = -p[j] * (by_log_prob + by_entropy * (v[j] + entropy))
                if j == column:
                    e[j] = e[j] + by_log_prob
        return e

    return Distribution(prepare, sample, log_prob, entropy, gradient)


def legal_of(choices: int, length: int, masked: bool) -> Any:
    """Build ``legal(o, mask, row)``, which returns outputs with `ILLEGAL` at illegal choices."""
    V = vector(length)

    @wp.func(inline=True)
    def legal(o: V, mask: wp.array2d(dtype=wp.bool), row: int):
        v = o
        if wp.static(masked):
            for j in range(choices):
                if not mask[row, j]:
                    v[j] = ILLEGAL
        return v

    return legal


LOG_STD = (-5.0, 2.0)
"""Bounds of a log standard deviation that depends on the state."""
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
_HALF_LOG_2_PI_E = 0.5 * math.log(2.0 * math.pi * math.e)
_LOG_2 = math.log(2.0)
_TWO_PI = 2.0 * math.pi


@wp.func(inline=True)
def normal(rng: philox.Stream, agent: int, k: int):
    """Return a standard normal number by the method of Box and Muller 1958."""
    word = philox.bits(rng, agent, philox.POLICY, k)
    radius = wp.sqrt(-2.0 * wp.log(1.0 - philox.unit(word[0])))
    return radius * wp.cos(_TWO_PI * philox.unit(word[1]))


def _diagonal_gaussian(
    size: int, length: int, prepare: Any, squashed: bool, gradient: Any, entropy: Any
) -> Distribution:
    """Return a Gaussian over prepared means and log standard deviations, [mean (K), log_std (K)]."""
    V = vector(length)

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
            value = v[k]
            if greedy == 0:
                value += wp.exp(v[size + k]) * normal(rng, agent, k)
            control[row, k] = value

    @wp.func(inline=True)
    def log_prob(v: V, choice: wp.array2d(dtype=wp.int64), control: wp.array2d(dtype=float), row: int):
        total = float(0.0)
        for k in range(size):
            z = (control[row, k] - v[k]) * wp.exp(-v[size + k])
            total += -0.5 * z * z - v[size + k] - _HALF_LOG_2_PI
            if wp.static(squashed):
                total -= _log_slope(control[row, k])
        return total

    return Distribution(prepare, sample, log_prob, entropy, gradient)


def gaussian(size: int, length: int) -> Distribution:
    """Return a diagonal Gaussian whose log standard deviations are extra parameters: outputs [mean (K), log_std (K)].

    Args:
        size: Number of dimensions K.
        length: Length of the vector of outputs.
    """
    V = vector(length)

    @wp.func(inline=True)
    def prepare(o: V, mask: wp.array2d(dtype=wp.bool), row: int):
        return o

    @wp.func(inline=True)
    def entropy(v: V, choice: wp.array2d(dtype=wp.int64), control: wp.array2d(dtype=float), row: int):
        total = float(0.0)
        for k in range(size):
            total += v[size + k] + _HALF_LOG_2_PI_E
        return total

    @wp.func(inline=True)
    def gradient(
        v: V,
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
        row: int,
        by_log_prob: float,
        by_entropy: float,
    ):
        d = V()
        for k in range(size):
            inverse = wp.exp(-v[size + k])
            z = (control[row, k] - v[k]) * inverse
            d[k] = by_log_prob * z * inverse
            d[size + k] = by_log_prob * (z * z - 1.0) + by_entropy
        return d

    return _diagonal_gaussian(size, length, prepare, False, gradient, entropy)


@wp.func(inline=True)
def _softplus(x: float):
    return wp.max(x, 0.0) + wp.log(1.0 + wp.exp(-wp.abs(x)))


@wp.func(inline=True)
def _log_slope(x: float):
    """Return log(1 - tanh(x)^2), finite even where tanh(x) rounds to 1."""
    return 2.0 * (_LOG_2 - x - _softplus(-2.0 * x))


def tanh_gaussian(size: int, length: int) -> Distribution:
    """Return a diagonal Gaussian squashed by tanh, with both moments from outputs [mean (K), raw log_std (K)].

    Source: Haarnoja et al. 2018, "Soft Actor-Critic", appendix C. Actions are stored before the tanh. The entropy is
    estimated at the stored action, with gradients as if it were reparameterized.
    """
    V = vector(length)
    low, half = LOG_STD[0], 0.5 * (LOG_STD[1] - LOG_STD[0])

    @wp.func(inline=True)
    def prepare(o: V, mask: wp.array2d(dtype=wp.bool), row: int):
        v = o
        for k in range(size):
            v[size + k] = low + half * (wp.tanh(o[size + k]) + 1.0)
        return v

    @wp.func(inline=True)
    def entropy(v: V, choice: wp.array2d(dtype=wp.int64), control: wp.array2d(dtype=float), row: int):
        total = float(0.0)
        for k in range(size):
            total += v[size + k] + _HALF_LOG_2_PI_E + _log_slope(control[row, k])
        return total

    @wp.func(inline=True)
    def gradient(
        v: V,
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
        row: int,
        by_log_prob: float,
        by_entropy: float,
    ):
        d = V()
        for k in range(size):
            action = control[row, k]
            inverse = wp.exp(-v[size + k])
            z = (action - v[k]) * inverse
            slope = -2.0 * wp.tanh(action)  # of log(1 - tanh(x)^2)
            d[k] = by_log_prob * z * inverse + by_entropy * slope
            by_log_std = by_log_prob * (z * z - 1.0) + by_entropy * (1.0 + slope * (action - v[k]))
            t = (v[size + k] - low) / half - 1.0
            d[size + k] = by_log_std * half * (1.0 - t * t)
        return d

    return _diagonal_gaussian(size, length, prepare, True, gradient, entropy)


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
    V, count, take = vector(length), len(sizes), policy.sample
    starts = [sum(sizes[:k]) for k in range(count)]

    @wp.func(inline=True)
    def choose_all(v: V, rng: philox.Stream, agent: int, choice: wp.array2d(dtype=wp.int64), row: int):
        for k in range(count):
            start = wp.static(starts[k])
            size = wp.static(sizes[k])
            num_legal = int(0)
            for j in range(size):
                if v[start + j] > LEAST_LEGAL:
                    num_legal += 1
            num_skipped = int(philox.below(philox.bits(rng, agent, philox.POLICY, k // 4)[k % 4], num_legal))
            pick = int(0)
            for j in range(size):
                if v[start + j] > LEAST_LEGAL:
                    if num_skipped == 0:
                        pick = j
                    num_skipped -= 1
            choice[row, k] = wp.int64(pick)

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
            choose_all(v, rng, agent, choice, row)
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


@cache
def distribution_of(kind: str, sizes: tuple[int, ...], mlp: Mlp, masked: bool, explores: bool = False) -> Distribution:
    """Return the distribution of a policy network.

    Args:
        kind: "categorical", "gaussian", "tanh_gaussian", "values" or "tanh".
        sizes: Number of choices of each categorical, or (K,) for K dimensions.
        mlp: Network of the policy.
        masked: Some choices are illegal at times.
        explores: Take random actions with a probability.
    """
    length = mlp.head_width
    make: dict[str, Callable[[], Distribution]] = {
        "categorical": lambda: categorical(sizes, length, masked),
        "gaussian": lambda: gaussian(sizes[0], length),
        "tanh_gaussian": lambda: tanh_gaussian(sizes[0], length),
        "values": lambda: action_values(sizes[0], length, masked, mlp.outputs > sizes[0]),
        "tanh": lambda: deterministic_tanh(sizes[0], length),
    }
    policy = make[kind]()
    if not explores:
        return policy
    if kind in ("categorical", "values"):
        return explored_choices(policy, sizes, length, mlp.outputs)
    return explored_box(policy, sizes[0], length, mlp.outputs, noisy=kind == "tanh")
