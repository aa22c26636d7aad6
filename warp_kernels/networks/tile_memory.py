"""Shared memory of the tile form of dense networks, and the tiles that fit the GPUs.

A block keeps the hidden values and outputs of its rows in shared memory. Matrices and inputs pass through it in slices.
Larger networks need more slices and hardly more memory.
"""

from dataclasses import dataclass
from functools import cache

from warp_kernels.networks.losses import NUM_METRICS
from warp_kernels.networks.mlp import LANES, Mlp, padded

BLOCK_DIM = 128
"""Threads of a block. Each computes 8 x 4 or 4 x 4 numbers of a product at once."""
TILE_ROWS = (64, 32)
"""Numbers of rows of a tile, the preferred one first."""
BLACKWELL = 100
"""Compute capability from which tiles have 32 rows; with 64 rows, ptxas 13.5 spills registers for sm_120."""
SHARED_MEMORY = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99, 121: 99}
"""Largest shared memory of a block by compute capability [KiB].

Source: CUDA C++ Programming Guide, "Compute Capabilities".
"""
PIECE = 1024
"""Numbers that a block has in registers at once between global and shared memory; more registers would spill."""
_SLICE_ROWS = 16
"""Rows of a slice of a matrix whose rows are as long as the widest hidden layer; slices of others are as large.

With 32 rows, ptxas 13.5 spills registers for sm_120.
"""
_RESERVED = 2048
"""Shared memory that Warp's reductions and the system use [bytes]."""


@dataclass(frozen=True)
class TileSizes:
    """Sizes of the buffers of a block [numbers], and numbers of rows of the slices of matrices."""

    matrix: int
    """Buffer of a slice of a matrix."""
    work: int
    """Buffer of a slice of the inputs, of a gradient by hidden values, or of a slice of a matrix of gradients."""
    inputs: int
    """Inputs of a slice."""
    forward: tuple[int, ...]
    """Inputs of a slice of every layer."""
    backward: tuple[int, ...]
    """Outputs of a slice of every layer; the first layer has no backward pass (0)."""
    gradient: tuple[int, ...]
    """Rows of a slice of the gradients of every layer."""


@cache
def tile_sizes(mlp: Mlp, tile_rows: int) -> TileSizes:
    """Return the sizes of buffers and slices of a block.

    Args:
        mlp: Sizes of the network.
        tile_rows: Number of rows of a tile.
    """
    last = mlp.num_layers - 1
    into = [padded(width) for width in mlp.widths[:-1]]
    out = [mlp.out_width(layer) for layer in range(mlp.num_layers)]
    widest = max(into[1:])
    limit, work = _SLICE_ROWS * widest, max(_SLICE_ROWS, tile_rows) * widest
    inputs = min(into[0], *(max(limit // length // LANES, 1) * LANES for length in (out[0], tile_rows)))
    forward = (inputs, *(_slice(into[k], out[k], limit) for k in range(1, mlp.num_layers)))
    backward = (0, *(_slice(out[k], into[k], limit) for k in range(1, mlp.num_layers)))
    gradient = (inputs, *(_slice(into[k], out[k], work) for k in range(1, last)), _slice(out[last], into[last], work))
    slices = [forward[k] * out[k] for k in range(mlp.num_layers)]
    slices += [backward[k] * into[k] for k in range(1, mlp.num_layers)]
    matrix = -(-max(*slices, tile_rows * inputs) // PIECE) * PIECE  # its pieces may have numbers after the slice
    return TileSizes(matrix, work, inputs, forward, backward, gradient)


def _slice(rows: int, length: int, limit: int) -> int:
    """Return the largest number of rows of a slice, a divisor of all rows, with at most ``limit`` numbers."""
    return max(n for n in range(LANES, rows + 1, LANES) if rows % n == 0 and (n * length <= limit or n == LANES))


def shared_bytes(mlp: Mlp, tile_rows: int) -> int:
    """Return the shared memory that a block of the gradient kernel allocates for its tiles.

    Args:
        mlp: Sizes of the network.
        tile_rows: Number of rows of a tile.
    """
    sizes = tile_sizes(mlp, tile_rows)
    hidden = sum(padded(width) for width in mlp.hidden)
    rows = tile_rows * (hidden + mlp.head_width + 1)
    biases = hidden + mlp.head_width
    metrics, barrier = BLOCK_DIM * NUM_METRICS, 4
    return 4 * (sizes.matrix + sizes.work + rows + biases + metrics + barrier)


def fits(mlp: Mlp, compute_capability: int) -> int | None:
    """Return the number of rows of a tile on an architecture, or None if PyTorch has to compute the network there.

    More rows read the weights less often, but a multiprocessor needs two blocks to hide latencies.

    Args:
        mlp: Sizes of the network.
        compute_capability: Compute capability, such as 90. Unknown ones have the memory of the next older one.
    """
    capabilities = [size for size in SHARED_MEMORY if size <= compute_capability]
    available = SHARED_MEMORY[max(capabilities)] << 10 if capabilities else 0
    choices = TILE_ROWS if compute_capability < BLACKWELL else TILE_ROWS[1:]
    needed = {rows: shared_bytes(mlp, rows) + _RESERVED for rows in choices}
    twice = [rows for rows, size in needed.items() if 2 * size <= available]
    once = [rows for rows, size in needed.items() if size <= available]
    return next(iter([*twice, *reversed(once)]), None)
