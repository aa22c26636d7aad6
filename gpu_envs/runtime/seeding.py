"""Keys of the worlds' random streams."""

from typing import Any

import numpy as np
import torch

from gpu_envs.errors import ConfigError, shown
from gpu_envs.utils.tensor_checks import check_tensor

__all__ = ["seed_keys", "write_keys"]


def seed_keys(env_id: str, seed: Any, like: torch.Tensor) -> torch.Tensor | int:
    """Return a seed as one key for all worlds, or as one key per world.

    Args:
        env_id: ID of the environment, for messages.
        seed: An int for all worlds, or (E,) int64.
        like: Tensor (E,) int64 whose device and shape keys of single worlds have.

    Raises:
        ConfigError: The seed is neither an int nor a tensor.
        ActionError: The tensor has another shape, dtype or device.
    """
    if isinstance(seed, torch.Tensor):
        check_tensor(env_id, "seed", seed, tuple(like.shape), torch.int64, like.device)
        return seed
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        wanted = f"an int, an int64 tensor {tuple(like.shape)} or None"
        raise ConfigError(f"{env_id}: seed: expected {wanted}, got {shown(seed)}")
    low = int(seed) & (2**64 - 1)
    return low - 2**64 if low >= 2**63 else low


def write_keys(buffers: dict[str, Any], keys: torch.Tensor | int, mask: torch.Tensor | None) -> None:
    """Write new keys and restart the episode counters, in all worlds or in those of a mask.

    Args:
        buffers: Buffers "seed" and "episode" of :class:`warp_kernels.episode.IO`; for all worlds also as arrays of
            :func:`gpu_envs.utils.host_view.host_view`.
        keys: (E,) int64, or one int for all worlds.
        mask: (E,) bool, or None for all worlds.
    """
    for name, value in (("seed", keys), ("episode", -1)):  # the next reset starts episode 0
        if mask is None:
            buffers[name][:] = value
        else:
            buffers[name].copy_(torch.where(mask, value, buffers[name]))
