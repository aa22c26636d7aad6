"""Dense networks on a GPU: a block of threads computes a tile of rows with tiles in shared memory.

One row per thread, the form of a CPU, needs more registers than a GPU thread has. The kernels also run on a CPU.
"""

from functools import cache
from typing import Any

import warp as wp

from warp_kernels.generated_source import compiled
from warp_kernels.networks.activations import activation, slope, vector
from warp_kernels.networks.gradient import MAX_CHUNKS, Minibatches, entry_address, network_module, num_chunks
from warp_kernels.networks.losses import NUM_METRICS, Metrics
from warp_kernels.networks.mlp import Mlp
from warp_kernels.networks.rows import OBS_CLIP
from warp_kernels.networks.tile_code import (
    array_of,
    backward_lines,
    buffer_lines,
    forward_lines,
    head_lines,
    indented,
    normalizer_lines,
    own_elements,
    row_lines,
    weight_lines,
)
from warp_kernels.networks.tile_memory import BLOCK_DIM, tile_sizes


@cache
def build_tile_gradient(mlp: Mlp, head: Any, key: str, tile_rows: int, block_dim: int = BLOCK_DIM) -> Any:
    """Build the kernel that adds the gradients of the rows of every chunk in tiles, without compiling it.

    Launch it with ``wp.launch_tiled``, a block per item. Arguments are as in
    :func:`~warp_kernels.networks.gradient.build_gradient`, and results are equal but for rounding.

    Args:
        mlp: Sizes of the network.
        head: See :func:`~warp_kernels.networks.rows.gradient_rows`.
        key: Name of the head with its sizes.
        tile_rows: Number of rows of a tile, see :func:`~warp_kernels.networks.tile_memory.fits`.
        block_dim: Threads of a block.
    """
    sizes = tile_sizes(mlp, tile_rows)
    lines = [
        "block, lane = wp.tid()",
        *buffer_lines(mlp, tile_rows, sizes),
        # In shared memory, as the registers of a thread are few.
        f"metrics = wp.tile_zeros(shape=({block_dim},), dtype=Metrics, storage='shared')",
        "begin = batch.begins[minibatch]",
        "count = batch.begins[minibatch + 1] - begin",
        "chunks = num_chunks(count)",
        "item = first + block",
        "while item < wp.min(end, batch.weights.shape[0] * chunks):",
        *indented(
            "policy = item // chunks",
            "chunk = item - policy * chunks",
            f"place = policy * {MAX_CHUNKS} + chunk",
            "at = begin + int(wp.int64(count) * wp.int64(chunk) / wp.int64(chunks))",
            "last = begin + int(wp.int64(count) * wp.int64(chunk + 1) / wp.int64(chunks))",
            "x = batch.x",
            "base = entry_address(batch.weights, policy, offset)",
            "target_base = entry_address(batch.packed, place, into)",
            f"target = {array_of('target_base', 0, mlp.num_packed)}",
            *own_elements("c", str(mlp.num_packed), "target[c] = 0.0"),
            *weight_lines(mlp, range(mlp.num_layers)),
            "metrics[lane] = Metrics()",
            "while at < last:",
            *indented(
                *row_lines(tile_rows, "batch.index[policy, wp.min(at + {row}, last - 1)]"),
                *forward_lines(mlp, tile_rows, sizes, False),
                *head_lines(mlp, tile_rows),
                *backward_lines(mlp, tile_rows, sizes),
                f"at += {tile_rows}",
            ),
            *own_elements(
                "c",
                str(NUM_METRICS),
                "total = float(0.0)",
                "turn = int(0)",
                "while turn < wp.block_dim():",
                "    total += metrics[turn][c]",
                "    turn += 1",
                "batch.packed[place, sums + c] = total",
            ),
            "barrier[0] = 0",
            "item += stride",
        ),
    ]
    parameters = (
        "first: int, end: int, stride: int, minibatch: int, offset: int, into: int, sums: int, batch: Minibatches"
    )
    constants = tile_functions(mlp) | {
        "entry_address": entry_address,
        "head": head,
        "Metrics": Metrics,
        "Minibatches": Minibatches,
        "num_chunks": num_chunks,
    }
    module = tile_module("tile_gradient", f"{mlp.key} {key} {tile_rows} {block_dim}", block_dim)
    return compiled(
        "tile_gradient", parameters, lines, constants, f'wp.kernel(module="{module}", name="tile_gradient")'
    )


@cache
def build_tile_forward(mlp: Mlp, tile_rows: int, normalize: bool, block_dim: int = BLOCK_DIM) -> Any:
    """Build the kernel that computes the outputs of rows in tiles, without compiling it.

    Launch it with ``wp.launch_tiled``, a block per item; the items are the tiles of all policies in order. Arguments:

    - first, end, stride: The items of the launch.
    - weights (P, W): Packed weights; ``offset`` is the place of the network in a row.
    - tiles: Number of tiles of each policy.
    - counts (P,) int32: Number of rows of each policy.
    - index (P, N) int64: Rows of each policy; of width 0 if there is one policy, whose rows are the first ones.
    - x (rows, D): Inputs.
    - seen (rows, D): Normalized inputs, a result; not written unless the kernel normalizes.
    - out (rows, K): Outputs, a result. Extra parameters follow the outputs as far as there are columns.

    Args:
        mlp: Sizes of the network.
        tile_rows: Number of rows of a tile.
        normalize: Normalize and clip the inputs by the statistics of the packed weights.
        block_dim: Threads of a block.
    """
    sizes = tile_sizes(mlp, tile_rows)
    lines = [
        "block, lane = wp.tid()",
        *buffer_lines(mlp, tile_rows, sizes),
        "listed = index.shape[1] > 0",
        "item = first + block",
        "while item < wp.min(end, weights.shape[0] * tiles):",
        *indented(
            "policy = item // tiles",
            f"at = (item - policy * tiles) * {tile_rows}",
            "last = counts[policy]",
            "if at < last:",
            *indented(
                "base = entry_address(weights, policy, offset)",
                *weight_lines(mlp, []),
                *normalizer_lines(mlp),
                *row_lines(tile_rows, "row_of(index, listed, policy, wp.min(at + {row}, last - 1))"),
                *forward_lines(mlp, tile_rows, sizes, normalize, keep=normalize),
                "columns = wp.min(out.shape[1], width)",
                *own_elements(
                    "c",
                    f"wp.min({tile_rows}, last - at) * columns",
                    "out[rows[c // columns], c % columns] = outputs[c // columns, c % columns]",
                ),
                "barrier[0] = 0",
            ),
            "item += stride",
        ),
    ]
    parameters = (
        "first: int, end: int, stride: int, offset: int, weights: wp.array2d(dtype=float), tiles: int, "
        "counts: wp.array(dtype=int), index: wp.array2d(dtype=wp.int64), x: wp.array2d(dtype=float), "
        "seen: wp.array2d(dtype=float), out: wp.array2d(dtype=float)"
    )
    constants = tile_functions(mlp) | {"row_of": _row_of, "entry_address": entry_address}
    module = tile_module("tile_forward", f"{mlp.key} {tile_rows} {normalize} {block_dim}", block_dim)
    return compiled("tile_forward", parameters, lines, constants, f'wp.kernel(module="{module}", name="tile_forward")')


def tile_module(kind: str, key: str, block_dim: int) -> str:
    """Set the options of the Warp module of a specialization; return its name.

    MathDx needs minutes to compile products, which are slow without fused adds.
    """
    name = network_module(kind, key)
    options = {"enable_mathdx_gemm": False, "fuse_fp": True, "block_dim": block_dim}
    wp.set_module_options(options, module=wp.get_module(name))
    return name


@wp.func
def _normalized_value(x: float, mean: float, rstd: float):
    return wp.clamp((x - mean) * rstd, -OBS_CLIP, OBS_CLIP)


@wp.func
def _row_of(index: wp.array2d(dtype=wp.int64), listed: bool, policy: int, slot: int):
    row = wp.int64(slot)
    if listed:
        row = index[policy, slot]
    return row


def tile_functions(mlp: Mlp) -> dict[str, Any]:
    """Return what the lines of :mod:`~warp_kernels.networks.tile_code` use, by name."""
    V, apply, slope_of = vector(1), activation(mlp.activation, 1), slope(mlp.activation, 1)

    @wp.func
    def activated(z: float, bias: float):
        return apply(V(z + bias))[0]

    @wp.func
    def sloped(y: float, e: float):
        return e * slope_of(V(y))[0]

    @wp.func
    def plus(z: float, bias: float):
        return z + bias

    return {
        "activated": activated,
        "sloped": sloped,
        "plus": plus,
        "normalized": _normalized_value,
        "Outputs": vector(mlp.head_width),
        "width": mlp.head_width,
    }
