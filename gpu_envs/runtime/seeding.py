"""Arguments of a reset: keys of the worlds' random streams, and step counts at which episodes start."""

from typing import Any

import numpy as np
import torch

from gpu_envs.errors import ConfigError, shown
from gpu_envs.utils.settings import MAX_INT
from gpu_envs.utils.tensor_checks import check_tensor, plain
from warp_kernels import episode


def seed_keys(env_id: str, seed: Any, like: torch.Tensor) -> torch.Tensor | int:
    """Return a seed as one key for all worlds, or as one key per world.

    Args:
        env_id: ID of the environment, for messages.
        seed: An int for all worlds, or one per world: a list, tuple or array (E,) of ints, or an int64 tensor (E,).
        like: Tensor (E,) int64 whose device and shape keys of single worlds have.

    Raises:
        ConfigError: A seed is not an int of 64 bits, or their number is not the number of worlds.
        ActionError: The tensor has another shape, dtype or device.
    """
    if isinstance(seed, torch.Tensor):
        check_tensor(env_id, "seed", seed, tuple(like.shape), torch.int64, like.device)
        return seed
    if isinstance(seed, np.ndarray) and seed.ndim == 1:
        seed = seed.tolist()
    if not isinstance(seed, list | tuple):
        return int_key(env_id, "seed", seed, "an int, one int per world or None")
    if len(seed) != len(like):
        expected = f"an int or one int per world, {len(like)} of them"
        raise ConfigError(f"{env_id}: seed: expected {expected}, got {len(seed)} seeds")
    keys = [int_key(env_id, f"seed[{world}]", key) for world, key in enumerate(seed)]
    return torch.tensor(keys, dtype=torch.int64, device=like.device)


def int_key(env_id: str, name: str, seed: Any, expected: str = "an int") -> int:
    """Return an int as the 64 bits of a key, signed: a seed in [2**63, 2**64) becomes negative.

    Raises:
        ConfigError: The seed is not an int, or has more than 64 bits.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise ConfigError(f"{env_id}: {name}: expected {expected}, got {shown(seed)}")
    if not -(2**63) <= seed < 2**64:
        raise ConfigError(f"{env_id}: {name}: expected an int in [-2**63, 2**64), got {shown(seed)}")
    return int(seed) - 2**64 if seed >= 2**63 else int(seed)


def write_keys(buffers: dict[str, Any], keys: torch.Tensor | int, indices: Any, mask: torch.Tensor | None) -> None:
    """Write new keys and restart the episode counters, in all worlds or only where a mask is True.

    Worlds that share a key differ by their index. A world with its own key plays as world 0 of that key, wherever it
    is in the batch.

    Args:
        buffers: Buffers "seed", "world" and "episode" of :class:`warp_kernels.episode.IO`.
        keys: One int for all worlds, or (E,) int64.
        indices: Global indices of the worlds, (E,) int32.
        mask: (E,) bool, or None for all worlds; then the buffers and indices may be arrays of
            ``gpu_envs.utils.host_view.host_view``.
    """
    world: Any = episode.OWN_SEED if isinstance(keys, torch.Tensor) else indices
    for name, value in (("seed", keys), ("world", world), ("episode", -1)):  # the next reset starts episode 0
        if mask is None:
            buffers[name][:] = value
        else:
            buffers[name].copy_(torch.where(mask, value, buffers[name]))


def check_elapsed(env_id: str, steps: Any, mask: torch.Tensor | None, limit: int, clock: torch.Tensor) -> Any:
    """Return the step counts at which episodes start, (E,) int32, or 0 if none are given.

    Args:
        env_id: ID of the environment, for messages.
        steps: (E,) int64 or int32, or None.
        mask: (E,) bool, the worlds whose counts are used; None for all.
        limit: Time limit [steps]; 0 for none.
        clock: Step counters of the core, (E,) int32.

    Raises:
        ActionError: Wrong shape, dtype or device.
        ConfigError: A step count outside [0, limit).
    """
    if steps is None:
        return 0
    counts = steps.long() if plain(steps) and steps.dtype == torch.int32 else steps
    check_tensor(env_id, "elapsed_steps", counts, tuple(clock.shape), torch.int64, clock.device)
    clocks = counts if mask is None else counts.masked_fill(~mask, 0)
    low, high = map(int, clocks.aminmax())
    if low < 0 or high >= (limit or MAX_INT):
        raise ConfigError(f"{env_id}: elapsed_steps: expected values in [0, {limit or MAX_INT}), got {low} to {high}")
    return clocks.int()
