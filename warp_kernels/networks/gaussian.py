"""Diagonal Gaussian distributions over continuous actions, as in ``trainers.models.continuous_heads``."""

import math
from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.networks.activations import vector
from warp_kernels.networks.distribution import Distribution

__all__ = ["LOG_STD", "gaussian", "normal", "tanh_gaussian"]

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
