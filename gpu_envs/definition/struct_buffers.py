"""Torch tensors and Warp structs over the same memory."""

import math
import mmap
import os
from typing import Any

import torch
import warp as wp

from gpu_envs.errors import ConfigError
from gpu_envs.utils.devices import LESS, stride_error, warp_array
from gpu_envs.utils.settings import MAX_INT
from warp_kernels.framework.wide_words import ALIGNMENT

HUGE_PAGE = 1 << 21
"""Size of a huge page [bytes]; smaller tensors need none."""


# Warp scalar type -> torch dtype of the same bytes; unsigned ones as signed, for which torch has arithmetic.
_TORCH = {
    wp.float32: torch.float32,
    wp.float64: torch.float64,
    wp.int32: torch.int32,
    wp.int64: torch.int64,
    wp.uint64: torch.int64,
    wp.uint32: torch.int32,
    wp.bool: torch.bool,
    wp.int8: torch.int8,
    wp.uint8: torch.uint8,
}
_PYTHON = {float: wp.float32, int: wp.int32, bool: wp.bool}


def allocate(struct: Any, shapes: dict[str, tuple[int, ...]], device: torch.device) -> dict[str, torch.Tensor]:
    """Allocate one zeroed tensor for every array of a Warp struct.

    Args:
        struct: A Warp struct; fields that are not arrays are ignored.
        shapes: Full shape by field; a vector dtype adds its own last axis.
        device: Device of the tensors.

    Raises:
        ConfigError: The memory does not suffice.
    """
    arrays = {name: var.type for name, var in struct.vars.items() if hasattr(var.type, "ndim")}
    planned, left = [], memory(device)
    for name, kind in arrays.items():
        scalar, inner = _element(kind.dtype)
        shape = (*shapes[name], *inner)
        check_stride(name, shape, scalar)
        needed = math.prod(shape) * scalar.itemsize
        short = ConfigError(f"{name} {shape} takes {needed / 1e9:,.3g} GB, more than {device} has left: {LESS}")
        left -= needed
        if left < 0:  # before any memory is written
            raise short
        planned.append((name, shape, scalar, short))
    tensors = {}
    for name, shape, scalar, short in planned:
        try:
            tensors[name] = _zeros(shape, scalar, device)
        except RuntimeError as error:  # torch is out of memory
            if device.type == "cuda" and not isinstance(error, torch.OutOfMemoryError):
                raise  # the error of an earlier kernel, reported here first
            raise short from error
    return tensors


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return a zeroed tensor; large ones on a CPU are on huge pages, where Linux has them.

    Worlds of a large batch are on separate pages. With pages of 4 KiB their addresses would not fit the caches of
    the page table.
    """
    size = math.prod(shape) * dtype.itemsize
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if device.type != "cpu" or size < HUGE_PAGE or advice is None:
        return torch.zeros(shape, dtype=dtype, device=device)
    try:
        region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        region.madvise(advice)
    except OSError:  # a kernel without huge pages, or no memory, which torch reports
        return torch.zeros(shape, dtype=dtype, device=device)
    return torch.frombuffer(region, dtype=dtype, count=math.prod(shape)).view(shape)


def memory(device: torch.device) -> float:
    """Return the total memory of a CPU [bytes], infinite if unknown; for a GPU torch reports exhausted memory."""
    names = getattr(os, "sysconf_names", {})
    if device.type != "cpu" or "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return math.inf
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def check_stride(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Raise an error if the strides [bytes] of an array do not fit Warp's 32 bits.

    Raises:
        ConfigError: Naming the array and its size.
    """
    stride = math.prod(shape[1:]) * dtype.itemsize
    if stride > MAX_INT:
        raise stride_error(name, shape, stride)


def check_start(name: str, tensor: torch.Tensor, word: int) -> None:
    """Raise an error unless a tensor starts at a multiple of a word [bytes], as kernels of a GPU assume.

    Args:
        name: Name for the message.
        tensor: The tensor, of any shape (N, ...).
        word: Length of the word [bytes].

    Raises:
        ConfigError: Naming the tensor and its offset.
    """
    if offset := tensor.data_ptr() % word:
        expected = f"a tensor that starts at a multiple of {word} bytes"
        raise ConfigError(f"{name}: expected {expected}, got one {offset} bytes after it")


def _element(dtype: Any) -> tuple[torch.dtype, tuple[int, ...]]:
    """Return the torch dtype and the inner shape of a Warp array's element."""
    inner: tuple[int, ...] = ()
    if hasattr(dtype, "_wp_scalar_type_"):
        inner, dtype = tuple(dtype._shape_), dtype._wp_scalar_type_
    return _TORCH[_PYTHON.get(dtype, dtype)], inner


def array_fields(struct: Any) -> dict[str, tuple[int, torch.dtype, tuple[int, ...]]]:
    """Return number of axes, and torch dtype and shape of an element, () for a number, of a Warp struct's arrays."""
    arrays = {name: var.type for name, var in struct.vars.items() if hasattr(var.type, "ndim")}
    return {name: (kind.ndim, *_element(kind.dtype)) for name, kind in arrays.items()}


def fill(struct: Any, tensors: dict[str, torch.Tensor], scalars: dict[str, int] | None = None) -> Any:
    """Return an instance of a Warp struct whose arrays are views of the tensors; scalars are given by name.

    Raises:
        ConfigError: A tensor does not start at a multiple of ALIGNMENT.
    """
    instance = struct()
    for name, var in struct.vars.items():
        if name in tensors:
            check_start(name, tensors[name], ALIGNMENT)
            setattr(instance, name, warp_array(tensors[name], var.type.dtype, name))
        else:
            setattr(instance, name, (scalars or {})[name])
    return instance


def params_tensor(struct: Any, values: dict[str, Any], rows: int, device: torch.device) -> torch.Tensor:
    """Return parameters as a float32 table, one row (F,) for all worlds or one per world; ints by their bits."""
    fields = param_fields(struct)
    table = torch.zeros((rows, len(fields)), dtype=torch.float32, device=device)
    for column, (name, dtype) in enumerate(fields.items()):
        table[:, column] = torch.as_tensor(values[name], dtype=dtype, device=device).expand(rows).view(torch.float32)
    return table


def param_fields(struct: Any) -> dict[str, torch.dtype]:
    """Return name and torch dtype of every field of a Params struct: float32 and int32 scalars only.

    Raises:
        ConfigError: A field has another type.
    """
    kinds = {name: _PYTHON.get(var.type, var.type) for name, var in struct.vars.items()}
    for name, kind in kinds.items():
        if kind not in (wp.float32, wp.int32):
            raise ConfigError(f"{struct.key}.{name}: expected a field that is a float or an int, got {kind.__name__}")
    return {name: _TORCH[kind] for name, kind in kinds.items()}
