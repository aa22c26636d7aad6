"""Losses of actor-critic algorithms: gradients by the outputs of a network, for one row."""

from functools import cache
from typing import Any

import warp as wp

from warp_kernels.networks.activations import vector
from warp_kernels.networks.distribution import Distribution

__all__ = [
    "ADVANTAGE",
    "CLIP_FRACTION",
    "CLIP_RANGE",
    "CLIP_RANGE_VF",
    "ENTROPY",
    "ENTROPY_COEF",
    "KL",
    "NUM_METRICS",
    "NUM_SETTINGS",
    "POLICY_LOSS",
    "PPO",
    "VALUE_COEF",
    "VALUE_LOSS",
    "Metrics",
    "RowData",
    "policy_head",
    "value_head",
]

PPO = "ppo"  # clipped objective
ADVANTAGE = "advantage"  # log-probability times advantage, for A2C

# Places in the array of settings.
CLIP_RANGE: int = wp.constant(0)
ENTROPY_COEF: int = wp.constant(1)
VALUE_COEF: int = wp.constant(2)
CLIP_RANGE_VF: int = wp.constant(3)  # below 0: no clipping
NUM_SETTINGS = 4

# Places in the vector of metrics.
POLICY_LOSS: int = wp.constant(0)
ENTROPY: int = wp.constant(1)
KL: int = wp.constant(2)
CLIP_FRACTION: int = wp.constant(3)
VALUE_LOSS: int = wp.constant(4)
NUM_METRICS = 8
Metrics = vector(NUM_METRICS)


@wp.struct
class RowData:
    """Decisions of a rollout that losses read, N rows."""

    choice: wp.array2d(dtype=wp.int64)  # (N, K) discrete actions; empty where actions are continuous
    control: wp.array2d(dtype=float)  # (N, K) continuous actions; empty where actions are discrete
    mask: wp.array2d(dtype=wp.bool)  # (N, choices); empty where every choice is always legal
    log_prob: wp.array(dtype=float)  # (N,) of the stored action when it was sampled
    advantage: wp.array(dtype=float)  # (N,)
    value: wp.array(dtype=float)  # (N,) prediction before the update
    returns: wp.array(dtype=float)  # (N,)


@cache
def policy_head(distribution: Distribution, objective: str, length: int) -> Any:
    """Build ``head(data, settings, row, outputs, scale)``, which returns gradient and metrics of the policy loss.

    Args:
        distribution: Distribution over actions.
        objective: PPO (Schulman et al. 2017, eq. 9) or ADVANTAGE (Mnih et al. 2016, algorithm S3).
        length: Length of the vector of outputs.
    """
    V = vector(length)
    prepare, log_prob_of = distribution.prepare, distribution.log_prob
    entropy_of, gradient = distribution.entropy, distribution.gradient
    clipped = objective == PPO

    @wp.func(inline=True)
    def head(data: RowData, settings: wp.array(dtype=float), row: int, o: V, scale: float):
        v = prepare(o, data.mask, row)
        log_prob = float(log_prob_of(v, data.choice, data.control, row))
        entropy = float(entropy_of(v, data.choice, data.control, row))
        advantage = data.advantage[row]
        gain = log_prob * advantage
        by_log_prob = -advantage
        m = Metrics()
        if wp.static(clipped):
            log_ratio = log_prob - data.log_prob[row]
            ratio = wp.exp(log_ratio)
            limit = settings[CLIP_RANGE]
            free = ratio * advantage
            gain = wp.min(free, wp.clamp(ratio, 1.0 - limit, 1.0 + limit) * advantage)
            by_log_prob = wp.where(free <= gain, -free, 0.0)
            m[KL] = ratio - 1.0 - log_ratio
            m[CLIP_FRACTION] = wp.where(wp.abs(ratio - 1.0) > limit, 1.0, 0.0)
        m[POLICY_LOSS] = -gain
        m[ENTROPY] = entropy
        by_entropy = -settings[ENTROPY_COEF]
        d = gradient(v, data.choice, data.control, row, by_log_prob * scale, by_entropy * scale)
        m = m * scale
        if scale == 0.0:  # the ratio of a row that does not count may be infinite
            d = V()
            m = Metrics()
        return d, m

    return head


@cache
def value_head(length: int) -> Any:
    """Build ``head(data, settings, row, outputs, scale)``, which returns gradient and metrics of the value loss."""
    V = vector(length)

    @wp.func(inline=True)
    def head(data: RowData, settings: wp.array(dtype=float), row: int, o: V, scale: float):
        value = o[0]
        error = value - data.returns[row]
        limit = settings[CLIP_RANGE_VF]
        by_value = error
        square = error * error
        if limit >= 0.0:
            change = value - data.value[row]
            clipped = data.value[row] + wp.clamp(change, -limit, limit) - data.returns[row]
            if clipped * clipped > square:
                square = clipped * clipped
                by_value = wp.where(wp.abs(change) <= limit, clipped, 0.0)
        d = V()
        d[0] = settings[VALUE_COEF] * by_value * scale
        m = Metrics()
        m[VALUE_LOSS] = 0.5 * square * scale
        return d, m

    return head
