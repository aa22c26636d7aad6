"""Gradients of a loss by the weights of a network, over the rows of minibatches.

A minibatch is cut into chunks. Every chunk has its packed gradients, which are added in order, so that their sum
does not depend on the number of threads.
"""

import hashlib
from functools import cache
from typing import Any

import warp as wp

from warp_kernels.generated_source import compiled
from warp_kernels.networks.losses import NUM_METRICS, Metrics, RowData
from warp_kernels.networks.mlp import Mlp
from warp_kernels.networks.rows import gradient_rows, rows_at_once

MAX_CHUNKS = 256
"""Largest number of chunks of a minibatch."""


@wp.struct
class Minibatches:
    """Minibatches of P policies, their weights and their gradients.

    Minibatch b has the rows index[p, begins[b]] to index[p, begins[b + 1] - 1] of N rows.
    """

    weights: wp.array2d(dtype=float)  # (P, W) packed weights of all networks of a policy
    packed: wp.array2d(dtype=float)  # (P * MAX_CHUNKS, G) packed gradients and sums of metrics of every chunk
    index: wp.array2d(dtype=wp.int64)  # (P, ...)
    begins: wp.array(dtype=int)  # (B + 1,)
    scale: wp.array2d(dtype=float)  # (P, B) factor of every row, such as 1 / number of rows
    valid: wp.array(dtype=wp.bool)  # (N,) rows that count
    x: wp.array2d(dtype=float)  # (N, D) normalized inputs
    rows: RowData  # what heads read
    settings: wp.array(dtype=float)  # (NUM_SETTINGS,) settings of losses


@wp.func
def entry_address(values: wp.array2d(dtype=float), row: int, column: int):
    """Return the address of an entry of a contiguous array, whose number of entries may exceed 32 bits."""
    return values.ptr + (wp.uint64(row) * wp.uint64(values.shape[1]) + wp.uint64(column)) * wp.uint64(4)


@wp.func
def num_chunks(num_rows: int):
    """Return the number of chunks of a minibatch, which depends on its number of rows only."""
    return wp.max(wp.max(wp.min(num_rows / 128, 8), wp.min(num_rows / 256, MAX_CHUNKS)), 1)


def network_module(kind: str, key: str) -> str:
    """Set the options of the Warp module of a specialization; return its name.

    The compiler contracts nothing to fused multiply-adds, so that all kernels of a network compute the same bits.
    """
    digest = hashlib.sha256(f"{kind} {key}".encode()).hexdigest()[:12]
    name = f"warp_kernels.networks.{kind}_{digest}"
    wp.set_module_options({"enable_backward": False, "fuse_fp": False, "max_unroll": 16}, module=wp.get_module(name))
    return name


@cache
def gradient_of_chunk(mlp: Mlp, head: Any) -> Any:
    """Build ``gradient(batch, policy, minibatch, chunk, offset, into, sums)``, which computes a chunk's gradients.

    ``offset`` is where the network starts in a row of weights, ``into`` where its gradients start, and ``sums`` the
    metrics in a row of packed gradients.

    Args:
        mlp: Sizes of the network.
        head: See :func:`~warp_kernels.networks.rows.gradient_rows`.
    """
    num_rows, size = rows_at_once(mlp), mlp.num_packed
    block = _block(gradient_rows(mlp, num_rows, head, RowData), num_rows)

    @wp.func
    def gradient(batch: Minibatches, policy: int, minibatch: int, chunk: int, offset: int, into: int, sums: int):
        begin = batch.begins[minibatch]
        count = batch.begins[minibatch + 1] - begin
        chunks = num_chunks(count)
        at = begin + int(wp.int64(count) * wp.int64(chunk) / wp.int64(chunks))
        last = begin + int(wp.int64(count) * wp.int64(chunk + 1) / wp.int64(chunks))
        item = policy * MAX_CHUNKS + chunk
        base = entry_address(batch.weights, policy, offset)
        target = entry_address(batch.packed, item, into)
        k = int(0)
        while k < size:
            batch.packed[item, into + k] = 0.0
            k += 1
        scale = batch.scale[policy, minibatch]
        metrics = Metrics()
        while at < last:
            metrics += block(base, target, batch, policy, at, last, scale)
            at += num_rows
        for n in range(NUM_METRICS):
            batch.packed[item, sums + n] = metrics[n]

    return gradient


@cache
def build_gradient(mlp: Mlp, head: Any, key: str) -> Any:
    """Build the kernel that computes the gradients of all chunks of a minibatch, without compiling it.

    It runs over items, the chunks of all policies in order. Arguments: first, end, stride, the minibatch, offset, into
    and sums as in :func:`gradient_of_chunk`, and the minibatches.

    Args:
        mlp: Sizes of the network.
        head: See :func:`~warp_kernels.networks.rows.gradient_rows`.
        key: Name of the head with its sizes.
    """
    gradient = gradient_of_chunk(mlp, head)

    @wp.kernel(module=network_module("gradient", f"{mlp.key} {key}"), name="gradient")
    def kernel(
        first: int, end: int, stride: int, minibatch: int, offset: int, into: int, sums: int, batch: Minibatches
    ):
        thread, _ = wp.tid()
        item = first + thread
        chunks = num_chunks(batch.begins[minibatch + 1] - batch.begins[minibatch])
        while item < wp.min(end, batch.weights.shape[0] * chunks):
            policy = item / chunks
            gradient(batch, policy, minibatch, item - policy * chunks, offset, into, sums)
            item += stride

    return kernel


def _block(gradient: Any, num_rows: int) -> Any:
    """Build the function that adds the gradients of the next rows of a chunk.

    Rows after the last one, and rows that do not count, have the factor 0.
    """
    rows = range(num_rows)
    lines = [f"r{r} = int(batch.index[policy, wp.min(at + {r}, last - 1)])" for r in rows]
    lines += [f"s{r} = wp.where(at + {r} < last and batch.valid[r{r}], scale, 0.0)" for r in rows]
    numbers = ", ".join([f"r{r}" for r in rows] + [f"s{r}" for r in rows])
    lines.append(f"return gradient(base, into, batch.x, batch.rows, batch.settings, {numbers})")
    parameters = "base: wp.uint64, into: wp.uint64, batch: Minibatches, policy: int, at: int, last: int, scale: float"
    return compiled("block", parameters, lines, {"gradient": gradient, "Minibatches": Minibatches})
