"""Form in which the kernels of a device compute a dense network: a row per thread, or a tile of rows per block."""

import torch
import warp as wp

import warp_kernels
from gpu_envs.errors import ConfigError
from warp_kernels.networks.mlp import Mlp
from warp_kernels.networks.tile_memory import fits

__all__ = ["MAX_THREAD_WIDTH", "acting_tile_rows", "fits_device", "fits_threads", "tile_rows"]

MAX_THREAD_WIDTH = 32
"""Widest hidden layer with which a GPU thread acts without spilled registers; blocks act with wider ones in tiles."""


def fits_threads(mlp: Mlp, device: torch.device) -> bool:
    """Return whether a thread of a device computes the outputs of a row."""
    return device.type != "cuda" or max(mlp.hidden) <= MAX_THREAD_WIDTH


def fits_device(mlp: Mlp, device: torch.device) -> bool:
    """Return whether policies with a network act inside the kernels of a device."""
    return fits_threads(mlp, device) or _rows_that_fit(mlp, device) is not None


def tile_rows(mlp: Mlp, device: torch.device) -> int | None:
    """Return the number of rows of a tile of the kernels on a GPU; None on a CPU, whose threads compute rows.

    Raises:
        ConfigError: The network does not fit the shared memory of the GPU.
    """
    if device.type == "cpu":
        return None
    rows = _rows_that_fit(mlp, device)
    if rows is None:
        raise ConfigError(
            f"network {mlp.key}: expected one that fits the shared memory of {device}; use engine='torch'"
        )
    return rows


def acting_tile_rows(mlp: Mlp, device: torch.device) -> int:
    """Return the number of rows of a tile in which agents act on a device; 0 where a thread computes a row.

    Raises:
        ConfigError: The network fits neither a thread nor the shared memory of the GPU.
    """
    return 0 if fits_threads(mlp, device) else tile_rows(mlp, device) or 0


def _rows_that_fit(mlp: Mlp, device: torch.device) -> int | None:
    warp_kernels.start()
    return fits(mlp, wp.device_from_torch(device).arch)
