"""Kernels that value a rollout and estimate advantages; the formulas are in ``trainers.buffers.returns``."""

from functools import cache
from typing import Any

import warp as wp

from warp_kernels.generated_source import compiled
from warp_kernels.networks.gradient import entry_address, network_module
from warp_kernels.networks.mlp import Mlp, padded
from warp_kernels.networks.rows import OBS_CLIP, forward_rows, rows_at_once

ROWS_PER_ITEM = 128
"""Rows that an item of the values kernel computes."""


@wp.struct
class GaeData:
    """Steps of a rollout: T steps of M agents."""

    value: wp.array2d(dtype=float)  # (T + 1, M) before every step, and after the last
    reward: wp.array2d(dtype=float)  # (T, M)
    terminated: wp.array2d(dtype=wp.bool)  # (T, M)
    truncated: wp.array2d(dtype=wp.bool)  # (T, M)
    valid: wp.array2d(dtype=wp.bool)  # (T, M)
    to_move: wp.array2d(dtype=wp.bool)  # (T + 1, M); empty unless agents take turns
    final_slot: wp.array2d(dtype=wp.int64)  # (T, M) row of final_value where an episode was cut
    final_value: wp.array(dtype=float)  # (slots + 1,)
    advantage: wp.array2d(dtype=float)  # (T, M) result
    returns: wp.array2d(dtype=float)  # (T, M) result
    known: wp.array2d(dtype=wp.bool)  # (T, M) result: decisions with a known outcome


@cache
def build_values(mlp: Mlp) -> Any:
    """Build the kernel that normalizes observations and computes the outputs of a critic, without compiling it.

    It runs over items of ROWS_PER_ITEM rows. Arguments: first, end, stride; ``offset`` of the critic in a row of
    weights, and ``policy``; weights (P, W); ``normalizer``, the offset of the statistics; raw observations (N, D);
    results ``normalized`` (N, D), and values (N,).
    """
    num_rows = rows_at_once(mlp)
    forward = forward_rows(mlp, num_rows, False)
    block = _block(forward, num_rows)
    inputs, spread = mlp.inputs, padded(mlp.inputs)

    @wp.kernel(module=network_module("values", mlp.key), name="values")
    def values(
        first: int,
        end: int,
        stride: int,
        offset: int,
        normalizer: int,
        policy: int,
        weights: wp.array2d(dtype=float),
        obs: wp.array2d(dtype=float),
        normalized: wp.array2d(dtype=float),
        value: wp.array(dtype=float),
    ):
        thread, _ = wp.tid()
        item = first + thread
        base = entry_address(weights, policy, offset)
        while item < end:
            row = item * ROWS_PER_ITEM
            last = wp.min(row + ROWS_PER_ITEM, obs.shape[0])
            at = row
            while at < last:
                k = int(0)
                while k < inputs:
                    z = (obs[at, k] - weights[policy, normalizer + k]) * weights[policy, normalizer + spread + k]
                    normalized[at, k] = wp.clamp(z, -OBS_CLIP, OBS_CLIP)
                    k += 1
                at += 1
            at = row
            while at < last:
                block(base, normalized, at, last, value)
                at += num_rows
            item += stride

    return values


def _block(forward: Any, num_rows: int) -> Any:
    """Build the function that computes and stores the values of the next rows."""
    rows = [f"wp.min(at + {k}, last - 1)" for k in range(num_rows)]
    outputs = [f"o{k}" for k in range(num_rows)]
    lines = [f"{', '.join(outputs)} = forward(base, normalized, {', '.join(rows)})"]
    lines += [f"value[{row}] = {output}[0]" for row, output in zip(rows, outputs, strict=True)]
    parameters = (
        "base: wp.uint64, normalized: wp.array2d(dtype=float), at: int, last: int, value: wp.array(dtype=float)"
    )
    return compiled("block", parameters, lines, {"forward": forward})


@cache
def build_advantages(by_turns: bool) -> Any:
    """Build the kernel of generalized advantage estimation over agents, without compiling it.

    Arguments: first, end, stride; data; discount, decay and the factor of rewards.

    Args:
        by_turns: An agent's time steps are its own decisions, see ``trainers.buffers.returns.gae_by_turns``.
    """

    @wp.func(inline=True)
    def every_step(data: GaeData, m: int, gamma: float, decay: float, reward_scale: float):
        following = float(0.0)
        t = data.reward.shape[0] - 1
        while t >= 0:
            advantage = float(0.0)
            value = float(0.0)
            if data.valid[t, m]:
                value = data.value[t, m]
                coming = float(0.0)
                if not data.terminated[t, m]:
                    if data.truncated[t, m]:
                        coming = data.final_value[int(data.final_slot[t, m])]
                    else:
                        coming = data.value[t + 1, m]
                advantage = data.reward[t, m] * reward_scale + gamma * coming - value
                if not (data.terminated[t, m] or data.truncated[t, m]):
                    advantage += gamma * decay * following
            data.advantage[t, m] = advantage
            data.returns[t, m] = advantage + value
            data.known[t, m] = data.valid[t, m]
            following = advantage
            t -= 1

    @wp.func(inline=True)
    def own_decisions(data: GaeData, m: int, gamma: float, decay: float, reward_scale: float):
        steps = data.reward.shape[0]
        coming = float(0.0)
        following = float(0.0)
        next_value = data.value[steps, m]
        settled = data.to_move[steps, m]
        t = steps - 1
        while t >= 0:
            terminated = data.terminated[t, m]
            done = terminated or data.truncated[t, m]
            decided = data.valid[t, m] and data.to_move[t, m]
            if terminated:
                next_value = 0.0
            if done:
                coming = 0.0
                following = 0.0
            coming += data.reward[t, m] * reward_scale
            settled = (settled and not data.truncated[t, m]) or terminated
            advantage = float(0.0)
            returns = float(0.0)
            is_known = decided and settled
            if is_known:
                advantage = coming + gamma * next_value - data.value[t, m] + gamma * decay * following
                returns = advantage + data.value[t, m]
            data.advantage[t, m] = advantage
            data.returns[t, m] = returns
            data.known[t, m] = is_known
            if decided:
                following = advantage
                coming = 0.0
                next_value = data.value[t, m]
            settled = settled or decided
            t -= 1

    estimate = own_decisions if by_turns else every_step

    @wp.kernel(module=network_module("advantages", str(by_turns)), name="advantages")
    def advantages(first: int, end: int, stride: int, data: GaeData, gamma: float, decay: float, reward_scale: float):
        thread, _ = wp.tid()
        m = first + thread
        while m < end:
            estimate(data, m, gamma, decay, reward_scale)
            m += stride

    return advantages
