"""Kernels after the gradients: they sum chunks, clip the norm, take a step of Adam, and copy matrices.

The functions work on slices of the packed numbers of a policy, so that one thread or many may share them.
"""

from functools import cache
from typing import Any

import warp as wp

from warp_kernels.networks.activations import vector
from warp_kernels.networks.gradient import MAX_CHUNKS, Minibatches, gradient_of_chunk, network_module, num_chunks
from warp_kernels.networks.mlp import LANES, Mlp

NUM_SLICES = 64
"""Number of slices that the packed numbers of a policy are cut into on a CPU, whatever its number of threads."""
GPU_SLICES = 1024
"""Number of slices on a GPU, each with its thread."""

V = vector(LANES)
"""Type of packed numbers."""


@wp.struct
class Adam:
    """Sums over chunks, and the state of Adam, for P policies. Packed numbers are vectors of LANES."""

    gradients: int  # vectors of gradients at the start of a row; metrics follow
    packed: wp.array2d(dtype=V)  # (P * MAX_CHUNKS, G) packed gradients of the chunks
    total: wp.array2d(dtype=V)  # (P, G) sums over chunks
    squares: wp.array2d(dtype=float)  # (P, S) sums of squared gradients of S slices
    sums: wp.array2d(dtype=V)  # (P, G) sums of metrics over gradient steps
    norms: wp.array(dtype=float)  # (P,) sums of gradient norms over gradient steps
    segments: wp.array2d(dtype=int)  # (N, 3) first gradient, first weight and number of vectors of every network
    weights: wp.array2d(dtype=V)  # (P, W) packed weights
    numbers: wp.array2d(dtype=float)  # (P, W * LANES) the same memory
    moments: wp.array2d(dtype=V)  # (P, G)
    squared_moments: wp.array2d(dtype=V)  # (P, G)
    steps: wp.array(dtype=float)  # (P,) steps of Adam so far
    rates: wp.array(dtype=float)  # (5,) step size, decay of both moments, epsilon, and largest norm (0 for no limit)
    active: wp.array(dtype=wp.bool)  # (P,) policies that take the step
    targets: wp.array(dtype=int)  # (C,) places of copies in a row of weights
    sources: wp.array(dtype=int)  # (C,) places of their originals


@wp.func
def _add_chunks(batch: Minibatches, adam: Adam, minibatch: int, policy: int, part: int):
    """Add the chunks' gradients and metrics of a slice, in the order of the chunks."""
    chunks = num_chunks(batch.begins[minibatch + 1] - batch.begins[minibatch])
    count = adam.total.shape[1]
    slices = adam.squares.shape[1]
    k = count * part / slices
    end = count * (part + 1) / slices
    square = float(0.0)
    while k < end:
        value = adam.packed[policy * MAX_CHUNKS, k]
        chunk = int(1)
        while chunk < chunks:
            value += adam.packed[policy * MAX_CHUNKS + chunk, k]
            chunk += 1
        adam.total[policy, k] = value
        if k < adam.gradients:
            square += wp.dot(value, value)
        k += 1
    adam.squares[policy, part] = square


@wp.func
def _norm_of(adam: Adam, policy: int):
    """Return the norm of a policy's gradient."""
    square = float(0.0)
    part = int(0)
    while part < adam.squares.shape[1]:
        square += adam.squares[policy, part]
        part += 1
    return wp.sqrt(square)


@wp.func
def _step_slice(adam: Adam, norm: float, policy: int, part: int):
    """Take a step of Adam (Kingma and Ba 2015, algorithm 1) with the clipped gradient of a slice."""
    if part == 0:
        adam.norms[policy] = adam.norms[policy] + norm
        k = int(adam.gradients)
        while k < adam.total.shape[1]:
            adam.sums[policy, k] = adam.sums[policy, k] + adam.total[policy, k]
            k += 1
    limit = adam.rates[4]
    factor = float(1.0)
    if limit > 0.0:
        factor = wp.min(1.0, limit / (norm + 1.0e-6))
    # In float64: 1 - 0.999 has few digits left in float32.
    count = wp.float64(adam.steps[policy]) + wp.float64(1.0)
    rate = adam.rates[0] / float(wp.float64(1.0) - wp.pow(wp.float64(adam.rates[1]), count))
    spread = float(wp.sqrt(wp.float64(1.0) - wp.pow(wp.float64(adam.rates[2]), count)))
    keep = 1.0 - adam.rates[1]
    keep_square = 1.0 - adam.rates[2]
    epsilon = V(adam.rates[3])
    slices = adam.squares.shape[1]
    s = int(0)
    while s < adam.segments.shape[0]:
        first = adam.segments[s, 0]
        offset = adam.segments[s, 1]
        length = adam.segments[s, 2]
        k = length * part / slices
        end = length * (part + 1) / slices
        while k < end:
            g = adam.total[policy, first + k] * factor
            m = adam.moments[policy, first + k]
            m += (g - m) * keep
            v = adam.squared_moments[policy, first + k] * adam.rates[2]
            v += wp.cw_mul(g, g) * keep_square
            adam.moments[policy, first + k] = m
            adam.squared_moments[policy, first + k] = v
            root = V()
            for i in range(LANES):
                root[i] = wp.sqrt(v[i])
            change = wp.cw_div(m * rate, root / spread + epsilon)
            adam.weights[policy, offset + k] = adam.weights[policy, offset + k] - change
            k += 1
        s += 1


@wp.func
def _copy_slice(adam: Adam, policy: int, part: int):
    """Copy the matrices of a slice to their other orientation, and count the step."""
    count = adam.targets.shape[0]
    slices = adam.squares.shape[1]
    k = count * part / slices
    end = count * (part + 1) / slices
    while k < end:
        adam.numbers[policy, adam.targets[k]] = adam.numbers[policy, adam.sources[k]]
        k += 1
    if part == 0:
        adam.steps[policy] = adam.steps[policy] + 1.0


@wp.func
def _step_policy(batch: Minibatches, adam: Adam, minibatch: int, policy: int):
    """Do what follows the gradients for all slices of a policy, in one thread."""
    slices = adam.squares.shape[1]
    part = int(0)
    while part < slices:
        _add_chunks(batch, adam, minibatch, policy, part)
        part += 1
    if adam.active[policy]:
        norm = _norm_of(adam, policy)
        stepped = int(0)
        while stepped < slices:
            _step_slice(adam, norm, policy, stepped)
            stepped += 1
        copied = int(0)
        while copied < slices:
            _copy_slice(adam, policy, copied)
            copied += 1


@cache
def build_optimizer() -> tuple[Any, Any, Any]:
    """Build the kernels ``add_chunks``, ``adam`` and ``copy_matrices``, without compiling them.

    They run over items, the slices of all policies in order. Arguments: first, end, stride, the minibatch, the
    minibatches, and the state of Adam.
    """
    module = network_module("optimizer", str(LANES))

    @wp.kernel(module=module, name="add_chunks")
    def add_chunks_kernel(first: int, end: int, stride: int, minibatch: int, batch: Minibatches, state: Adam):
        thread, _ = wp.tid()
        item = first + thread
        slices = state.squares.shape[1]
        while item < end:
            policy = item / slices
            _add_chunks(batch, state, minibatch, policy, item - policy * slices)
            item += stride

    @wp.kernel(module=module, name="adam")
    def adam_kernel(first: int, end: int, stride: int, minibatch: int, batch: Minibatches, state: Adam):
        thread, _ = wp.tid()
        item = first + thread
        slices = state.squares.shape[1]
        while item < end:
            policy = item / slices
            if state.active[policy]:
                _step_slice(state, _norm_of(state, policy), policy, item - policy * slices)
            item += stride

    @wp.kernel(module=module, name="copy_matrices")
    def copy_kernel(first: int, end: int, stride: int, minibatch: int, batch: Minibatches, state: Adam):
        thread, _ = wp.tid()
        item = first + thread
        slices = state.squares.shape[1]
        while item < end:
            policy = item / slices
            if state.active[policy]:
                _copy_slice(state, policy, item - policy * slices)
            item += stride

    return add_chunks_kernel, adam_kernel, copy_kernel


@cache
def build_epoch(actor: Mlp, actor_head: Any, critic: Mlp, critic_head: Any, key: str) -> Any:
    """Build the kernel in which one thread takes all gradient steps of an epoch of a policy, without compiling it.

    It runs over policies, and computes the same bits as the kernels of :func:`build_optimizer` and
    :func:`~warp_kernels.networks.gradient.build_gradient`. Arguments: first, end, stride; the number of minibatches;
    offset, into and sums of actor and critic, as in :func:`~warp_kernels.networks.gradient.gradient_of_chunk`; the
    minibatches; and the state of Adam.

    Args:
        actor: Sizes of the policy's network.
        actor_head: Loss of the policy.
        critic: Sizes of the critic.
        critic_head: Loss of the critic.
        key: Name of the heads with their sizes.
    """
    of_actor, of_critic = gradient_of_chunk(actor, actor_head), gradient_of_chunk(critic, critic_head)

    @wp.kernel(module=network_module("epoch", f"{actor.key} {critic.key} {key}"), name="epoch")
    def epoch(
        first: int,
        end: int,
        stride: int,
        num_minibatches: int,
        offsets: wp.vec2i,
        into: wp.vec2i,
        sums: wp.vec2i,
        batch: Minibatches,
        state: Adam,
    ):
        thread, _ = wp.tid()
        policy = first + thread
        while policy < end:
            minibatch = int(0)
            while minibatch < num_minibatches:
                chunks = num_chunks(batch.begins[minibatch + 1] - batch.begins[minibatch])
                chunk = int(0)
                while chunk < chunks:
                    of_actor(batch, policy, minibatch, chunk, offsets[0], into[0], sums[0])
                    of_critic(batch, policy, minibatch, chunk, offsets[1], into[1], sums[1])
                    chunk += 1
                _step_policy(batch, state, minibatch, policy)
                minibatch += 1
            policy += stride

    return epoch
