"""Checks of tensors, arrays, environment indices and frame sizes that users pass."""

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import torch

from gpu_envs.errors import ActionError, ConfigError, describe_tensor, shown
from gpu_envs.utils.settings import check_value

MAX_FRAME_BYTES = 2**31
"""Maximum size of the frames of one call [bytes]."""


def plain(value: Any) -> TypeGuard[torch.Tensor]:
    """Return whether a value is a strided tensor with elements in memory, of any shape (...).

    Sparse, nested and quantized tensors and those on "meta" are not.
    """
    if not isinstance(value, torch.Tensor) or value.is_nested or value.layout is not torch.strided:
        return False
    return value.device.type != "meta" and not value.is_quantized


def check_tensor(
    env_id: str, name: str, value: Any, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    """Raise an error if a tensor has a wrong shape, dtype or device.

    Raises:
        ActionError: Naming the expected and the given tensor.
    """
    if not plain(value) or tuple(value.shape) != shape or value.dtype != dtype or value.device != device:
        expected = f"a {dtype} tensor {shape} on {device}"
        raise ActionError(f"{env_id}: {name}: expected {expected}, got {describe_tensor(value)}")


def numbers(context: str, values: Any, kinds: str, expected: Any) -> np.ndarray:
    """Return values as a NumPy array of numbers whose dtype is of the given kinds and fits torch.

    Raises:
        ActionError: The values are not such numbers.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # a ragged list, a tensor without elements in memory
        raise ActionError(f"{context}: actions: expected numbers of {expected}, got {shown(values)}") from None
    if array.dtype.kind not in kinds or array.dtype.itemsize > 8:
        raise ActionError(f"{context}: actions: expected numbers of {expected}, got {array.dtype}")
    return array


def check_worlds(env_id: str, envs: Any, num_envs: int) -> tuple[int, ...]:
    """Return indices of worlds, given as an int, or as a sequence, array or tensor (W,) of ints.

    Raises:
        ConfigError: There are no indices, or one is out of range.
    """
    indices: Any = (envs,) if isinstance(envs, int | np.integer) else envs
    if isinstance(indices, np.ndarray) or plain(indices):
        indices = indices.tolist()
    rows: tuple[Any, ...] = ()
    if isinstance(indices, Sequence) and not isinstance(indices, str | bytes | bytearray):  # no set, which has no order
        rows = tuple(int(env) if isinstance(env, np.integer) else env for env in indices)
    if not rows or not all(type(env) is int and 0 <= env < num_envs for env in rows):  # a bool is no index
        raise ConfigError(f"{env_id}: envs: expected indices of worlds in [0, {num_envs}), got {shown(envs)}")
    return rows


def check_frame(env_id: str, envs: Any, num_envs: int, size: Any) -> tuple[tuple[int, ...], int]:
    """Return the indices of the worlds to draw, and the side of their frames [pixels].

    Raises:
        ConfigError: An index or the size is invalid, or the frames take more than MAX_FRAME_BYTES.
    """
    rows = check_worlds(env_id, envs, num_envs)
    side = check_value(env_id, "size", size, int, ge=1)
    if len(rows) * side * side * 3 > MAX_FRAME_BYTES:
        largest = int((MAX_FRAME_BYTES / 3 / len(rows)) ** 0.5)
        raise ConfigError(f"{env_id}: size: expected at most {largest} [pixels] for {len(rows)} worlds, got {side}")
    return rows, side
