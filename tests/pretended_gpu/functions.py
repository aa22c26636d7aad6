"""Functions of torch that name a device or read one, seen above autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pretended_gpu.claims import CPU, claim, device_of, is_pinned, pin, storage_of
from pretended_gpu.state import GPUState, call_site

Handler = Callable[..., Any]


class FunctionMode(TorchFunctionMode):
    """Allocate on the claimed device, and answer with it when a tensor is asked for its device."""

    def __init__(self, gpu: GPUState) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if (handler := HANDLERS.get(func)) is not None:
            return handler(self.gpu, func, *args, **kwargs)
        if kwargs.get("device") is None and not kwargs.get("pin_memory"):
            device = gpu_among(args) or gpu_among(kwargs.values())
            if device is None and torch._C._current_graph_task_id() >= 0:
                device = self.gpu.requested_device or CPU
            if device is None:
                return func(*args, **kwargs)
            with self.gpu.requesting(device):  # torch allocates where the arguments are
                return func(*args, **kwargs)
        return allocate(self.gpu, func, args, dict(kwargs))


def gpu_among(arguments: Iterable[Any]) -> torch.device | None:
    """Return the GPU of the first tensor on one; lists are searched, too."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            if (device := device_of(argument)).type == "cuda":
                return device
        elif isinstance(argument, list | tuple) and (nested := gpu_among(argument)) is not None:
            return nested
    return None


def allocate(gpu: GPUState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a function with an argument `device`, on the CPU, and let its result claim the device."""
    requested, pinned = kwargs.pop("device", None), kwargs.pop("pin_memory", False)
    device = CPU if requested is None else gpu.resolve(requested)
    if requested is not None:
        kwargs["device"] = CPU if device.type == "cuda" else device
    with gpu.requesting(device):
        result = func(*args, **kwargs)
    return pin(result) if pinned else result


class Transfer(torch.autograd.Function):
    """Copy a tensor to another device; its gradient goes back."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, gpu: GPUState, device: torch.device, asynchronous: bool) -> Tensor:
        ctx.gpu, ctx.source = gpu, device_of(tensor)
        with torch._C.DisableTorchFunction(), gpu.requesting(device):
            target = torch.empty_like(tensor)
        if asynchronous and device == CPU:
            pin(target)  # torch does so, too
        return target.copy_(tensor, non_blocking=asynchronous)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return Transfer.apply(gradients[0], ctx.gpu, ctx.source, False), None, None, None


def to_device(gpu: GPUState, tensor: Tensor, device: torch.device, asynchronous: bool = False) -> Tensor:
    """Return a tensor on a device: itself, or a copy."""
    if device_of(tensor) == device:
        return tensor
    if device.type not in ("cpu", "cuda"):
        return tensor.to(device)
    return Transfer.apply(tensor, gpu, device, asynchronous)


def to(gpu: GPUState, func: Any, tensor: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
    like = kwargs.pop("other", None) if "other" in kwargs else args[0] if args else None
    if isinstance(like, Tensor):
        device, dtype, options = device_of(like), like.dtype, args[1:]
        asynchronous = options[0] if options else kwargs.get("non_blocking", False)
        layout = kwargs.get("memory_format")
    else:
        device, dtype, asynchronous, layout = torch._C._nn._parse_to(*args, **kwargs)
        device = device_of(tensor) if device is None else gpu.resolve(device)
    if device == device_of(tensor) or dtype not in (None, tensor.dtype) or layout is not None:
        must_copy = copy and device == device_of(tensor)
        settings = {} if layout is None else {"memory_format": layout}
        tensor = func(tensor, dtype=dtype or tensor.dtype, copy=must_copy, **settings)
    return to_device(gpu, tensor, device, asynchronous)


def type_as(gpu: GPUState, func: Any, tensor: Tensor, other: Tensor) -> Tensor:
    return to(gpu, Tensor.to, tensor, other)


def cuda(gpu: GPUState, func: Any, tensor: Tensor, device: Any = None, non_blocking: bool = False, **_: Any) -> Tensor:
    return to_device(gpu, tensor, gpu.resolve(device), non_blocking)


def cpu(gpu: GPUState, func: Any, tensor: Tensor, **_: Any) -> Tensor:
    return to_device(gpu, tensor, CPU)


def from_data(gpu: GPUState, func: Any, data: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Make a tensor of Python numbers, of an array or of a tensor."""
    device, pinned = kwargs.pop("device", None), kwargs.pop("pin_memory", False)
    requires_grad = kwargs.pop("requires_grad", False)
    if device is None and len(args) > 1:  # as_tensor(data, dtype, device)
        args, device = args[:1], args[1]
    result = func(data, *args, **kwargs)
    if device is not None:
        result = to_device(gpu, result, gpu.resolve(device))
    result = pin(result) if pinned else result
    return result.requires_grad_() if requires_grad else result


def new_tensor(gpu: GPUState, func: Any, like: Tensor, data: Any, **kwargs: Any) -> Tensor:
    kwargs.setdefault("dtype", like.dtype)
    kwargs.setdefault("device", device_of(like))
    return from_data(gpu, torch.tensor, data, **kwargs)


def read_on_host(gpu: GPUState, func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    if device_of(tensor).type == "cuda":
        gpu.synchronize(func.__name__)
    return func(tensor, *args, **kwargs)


def share_with_host(gpu: GPUState, func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    device = device_of(tensor)
    if device.type == "cuda":
        raise TypeError(f"can't convert {device} device type tensor to numpy. Use Tensor.cpu() first: {call_site()}")
    return func(tensor, *args, **kwargs)


def pin_memory(gpu: GPUState, func: Any, tensor: Tensor, device: Any = None) -> Tensor:
    if device_of(tensor).type == "cuda":
        raise RuntimeError(
            f"cannot pin memory of {device_of(tensor)}, only dense CPU tensors can be pinned: {call_site()}"
        )
    return tensor if is_pinned(tensor) else pin(tensor.clone())


def deepcopy(gpu: GPUState, func: Any, tensor: Tensor, memo: Any) -> Tensor:
    is_memoized = id(tensor) in memo
    copied = func(tensor, memo)
    if not is_memoized and storage_of(copied) is not None:
        gpu.allocations += claim(copied, device_of(tensor))
    return copied


HANDLERS: dict[Any, Handler] = {
    Tensor.device.__get__: lambda gpu, func, tensor, *_: device_of(tensor),
    Tensor.is_cuda.__get__: lambda gpu, func, tensor, *_: device_of(tensor).type == "cuda",
    Tensor.is_cpu.__get__: lambda gpu, func, tensor, *_: device_of(tensor).type == "cpu",
    Tensor.get_device: lambda gpu, func, tensor: -1 if device_of(tensor) == CPU else device_of(tensor).index,
    Tensor.is_pinned: lambda gpu, func, tensor, *_: is_pinned(tensor),
    Tensor.record_stream: lambda gpu, func, tensor, stream: None,
    Tensor.pin_memory: pin_memory,
    Tensor.to: to,
    Tensor.type_as: type_as,
    Tensor.cuda: cuda,
    Tensor.cpu: cpu,
    Tensor.tolist: read_on_host,
    Tensor.numpy: share_with_host,
    Tensor.__array__: share_with_host,
    Tensor.__deepcopy__: deepcopy,
    Tensor.new_tensor: new_tensor,
    torch.tensor: from_data,
    torch.as_tensor: from_data,
    torch.asarray: from_data,
}
"""Functions with a different meaning on a GPU."""
