"""Devices that both torch and Warp can use: their choice, torch's current GPU and stream, and arrays over tensors."""

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
import warp as wp

import warp_kernels
from gpu_envs.errors import ConfigError, DeviceError, shown
from gpu_envs.utils.settings import MAX_INT

LESS = "use fewer worlds or agents, or observations of less"
"""Hint of messages about memory."""
_EXPECTED = "device: expected 'cpu', 'cuda' or 'cuda:N', got"


def resolve_device(device: str | torch.device | None) -> torch.device:
    """Return the requested device; None selects a GPU that both torch and Warp can use if there is one, else the CPU.

    CUDA is not started: settings that must be in force before it starts can still be made. "cuda" is torch's current
    GPU, which is the first one until CUDA has started.

    Raises:
        DeviceError: The device is not available or not supported.
    """
    if device is None:
        return _default_device()
    try:
        if not isinstance(device, str | int | torch.device) or isinstance(device, bool):
            raise TypeError
        target = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        raise DeviceError(f"{_EXPECTED} {shown(device)}") from None
    if target.type == "cpu":
        return torch.device("cpu")
    if target.type != "cuda":
        raise DeviceError(f"{_EXPECTED} {device!r}")
    if not torch.cuda.is_available():
        raise DeviceError(
            f"device {device!r} was asked for, but torch finds no CUDA GPU here; "
            "use device='cpu' or install a CUDA build of torch"
        )
    if missing := warp_kernels.missing_gpu():
        raise DeviceError(f"device {device!r} was asked for: {_devices(missing)}; or use device='cpu'")
    index = target.index
    if index is None:
        index = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    for library, count in (("torch", torch.cuda.device_count()), ("Warp", wp.get_cuda_device_count())):
        if index >= count:
            raise DeviceError(f"device {device!r} was asked for, but the number of GPUs of {library} is {count}")
    return torch.device("cuda", index)


def current_device_kept(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context for work of Warp on a device, after which torch's current GPU is the same as before.

    Warp makes the GPU of a launch the current one and does not restore the previous one. Nothing is done on the CPU,
    and nothing if the GPU is the current one.
    """
    if device.type != "cuda" or torch.cuda.current_device() == device.index:
        return nullcontext()
    return torch.cuda.device(device)


def _default_device() -> torch.device:
    """Return the current GPU, or the CPU without one; warn if torch finds a GPU that Warp cannot use."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if missing := warp_kernels.missing_gpu():
        warnings.warn(f"device: the CPU is used; {_devices(missing)}", stacklevel=3)
        return torch.device("cpu")
    return resolve_device("cuda")


def _devices(missing: str) -> str:
    """Return a message about a GPU that torch finds and Warp does not."""
    return f"torch {torch.__version__} (CUDA {torch.version.cuda}) finds a GPU, but {missing}"


def warp_array(tensor: torch.Tensor, dtype: Any = None, name: str = "tensor") -> Any:
    """Return a Warp array over the memory of a tensor, (...) or (N, F) for structs of F numbers.

    Args:
        tensor: The tensor (...); vectors and structs take its last axis.
        dtype: Warp type of the elements; None: the tensor's.
        name: Name for messages.

    Raises:
        ConfigError: The strides do not fit Warp's 32 bits. Warp does not check them, and kernels would write elsewhere.
    """
    stride = max(tensor.stride(), default=0) * tensor.element_size()
    if stride > MAX_INT:
        raise stride_error(name, tuple(tensor.shape), stride)
    if not hasattr(dtype, "vars"):  # no struct
        return wp.from_torch(tensor.detach(), dtype=dtype)
    row, device = tensor.stride(0) * tensor.element_size(), wp.device_from_torch(tensor.device)
    array = wp.array(
        ptr=tensor.data_ptr(), dtype=dtype, shape=(len(tensor),), strides=(row,), device=device, copy=False
    )
    array._tensor = tensor  # type: ignore[attr-defined]  # keeps the memory alive
    return array


def stride_error(name: str, shape: tuple[int, ...], stride: int) -> ConfigError:
    """Return the error of an array with a stride [bytes] beyond Warp's 32 bits."""
    expected = f"rows of at most {MAX_INT / 1e9:.3g} GB, which kernels can address"
    return ConfigError(f"{name} {shape}: expected {expected}, got {stride / 1e9:,.3g} GB: {LESS}")


_streams: dict[tuple[int, int], wp.Stream] = {}


def warp_stream(device: torch.device) -> wp.Stream | None:
    """Return torch's current stream of a GPU as Warp's, None for the CPU.

    Each stream is wrapped once per process: Warp keeps streams in a map without a lock, and threads launch at once.
    """
    if device.type != "cuda":
        return None
    current = torch.cuda.current_stream(device)
    key = (device.index, current.cuda_stream)
    if key not in _streams:
        with warp_kernels.building:
            if key not in _streams:
                _streams[key] = wp.stream_from_torch(current)
    return _streams[key]


def host_view(tensor: torch.Tensor) -> np.ndarray | torch.Tensor:
    """Return a NumPy array over the memory of a tensor (E, ...) on a CPU, and the tensor itself on another device.

    Assignments to slices are the same for both. NumPy's take a fraction of the time where rows are few.
    """
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor
