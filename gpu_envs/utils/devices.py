"""The choice of a device that both torch and Warp can use, torch's current GPU, and arrays over memory of a CPU."""

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
import warp as wp

import warp_kernels
from gpu_envs.errors import DeviceError, shown

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


def host_view(tensor: torch.Tensor) -> np.ndarray | torch.Tensor:
    """Return a NumPy array over the memory of a tensor (E, ...) on a CPU, and the tensor itself on another device.

    Assignments to slices are the same for both. NumPy's take a fraction of the time where rows are few.
    """
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor
