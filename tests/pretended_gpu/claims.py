"""The device that a tensor claims. A claim belongs to its storage, so all views of the memory share it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CPU = torch.device("cpu")


def storage_of(tensor: Tensor) -> torch.UntypedStorage | None:
    """Return the storage of a tensor; None for sparse and nested tensors, which have no single one."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


def device_of(tensor: Tensor) -> torch.device:
    """Return the device that a tensor claims."""
    storage = storage_of(tensor)
    if storage is None:
        return CPU
    return getattr(storage, "claimed_device", storage.device)


def claim(tensor: Tensor, device: torch.device) -> bool:
    """Make the memory of a tensor claim a device, unless it claims one; return whether that is new memory of a GPU."""
    storage: Any = storage_of(tensor)
    if device.type == "cpu" or storage is None or hasattr(storage, "claimed_device"):
        return False
    storage.claimed_device = device
    return storage.nbytes() > 0


def pin(tensor: Tensor) -> Tensor:
    """Mark host memory as pinned."""
    storage: Any = storage_of(tensor)
    storage.pinned = True
    return tensor


def is_pinned(tensor: Tensor) -> bool:
    """Return whether the memory of a tensor is marked as pinned."""
    return getattr(storage_of(tensor), "pinned", False)


def alias(tensor: Tensor) -> Tensor:
    """Return another tensor over the same memory, without autograd and with its own version counter."""
    return view_of(tensor.untyped_storage(), tensor.dtype, *layout_of(tensor))


def layout_of(tensor: Tensor) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return offset, size and strides [elements] of a tensor in its storage."""
    return tensor.storage_offset(), tuple(tensor.size()), tuple(tensor.stride())


def view_of(
    storage: torch.UntypedStorage, dtype: torch.dtype, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> Tensor:
    """Return a tensor over a storage."""
    return torch.empty(0, dtype=dtype).set_(storage, offset, size, stride)  # type: ignore[call-overload]
