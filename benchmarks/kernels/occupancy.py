"""Limits of GPU architectures, and the theoretical occupancy of a kernel.

The calculation and its constants come from ``cuda_occupancy.h`` in NVIDIA's package ``nvidia-cuda-runtime`` 13.5.
Limits per multiprocessor: CUDA C++ Programming Guide, "Compute Capabilities".
"""

from dataclasses import dataclass

WARP = 32
"""Threads of a warp."""
REGISTERS = 65_536
"""Registers of a multiprocessor."""
PARTITIONS = 4
"""Parts of a multiprocessor, each with its own registers."""
UNIT = 256
"""Registers are given to a warp in multiples of this."""
SHARED_UNIT = 128
"""Shared memory is given to a block in multiples of this [bytes]."""
RESERVED = 1024
"""Shared memory of a block that the system uses [bytes]."""


@dataclass(frozen=True)
class Architecture:
    """Limits of a multiprocessor."""

    compute_capability: int
    """Compute capability, such as 90."""
    max_warps: int
    """Most resident warps."""
    max_blocks: int
    """Most resident blocks."""
    shared: int
    """Shared memory [bytes]."""

    @property
    def name(self) -> str:
        """Name of the architecture for ptxas."""
        return f"sm_{self.compute_capability}"


ARCHITECTURES = (
    Architecture(80, 64, 32, 164 << 10),  # A100
    Architecture(90, 64, 32, 228 << 10),  # H100
    Architecture(120, 48, 24, 100 << 10),  # RTX 5090
)


def occupancy(architecture: Architecture, registers: int, shared: int, block_dim: int) -> float:
    """Return the share of a multiprocessor's warps that can be resident, 0 to 1.

    Args:
        architecture: Its limits.
        registers: Registers of a thread.
        shared: Shared memory of a block [bytes].
        block_dim: Threads of a block.
    """
    warps = -(-block_dim // WARP)
    of_warp = _rounded_up(registers * WARP, UNIT)
    blocks = min(
        REGISTERS // PARTITIONS // of_warp * PARTITIONS // warps,
        architecture.shared // _rounded_up(shared + RESERVED, SHARED_UNIT),
        architecture.max_warps // warps,
        architecture.max_blocks,
    )
    return blocks * warps / architecture.max_warps


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
