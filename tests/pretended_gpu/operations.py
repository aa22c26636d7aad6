"""Operations of torch on tensors with claimed devices, seen below autograd, so that a backward pass is included."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pretended_gpu.claims import CPU, claim, device_of, is_pinned
from pretended_gpu.generators import RealGenerator, default_generator_in_use, device_of_generator
from pretended_gpu.graphs import tensors_in
from pretended_gpu.state import GPUState, call_site

SYNCHRONIZING = {
    *("_local_scalar_dense", "is_nonzero", "equal", "allclose", "nonzero", "masked_select", "bincount", "multinomial"),
    *("_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive"),
}
"""Operations that read from the device, or whose result has a size that depends on values."""
SCALARS_OF_THE_HOST = ("fill_", "fill", "masked_fill", "masked_fill_", "index_fill", "index_fill_")
"""Operations that are not elementwise and accept a scalar tensor of the CPU."""


class Operation:
    """Properties of an operation, read from its schema.

    Attributes:
        func: The operation.
        name: Its name, without overload.
        is_view: It returns views and writes nothing.
        allocates: It returns new memory.
        is_random: It draws random numbers.
        takes_device: It has an argument `device`.
        accepts_scalars: It accepts scalar tensors of the CPU beside tensors of a GPU.
    """

    def __init__(self, func: Any) -> None:
        schema, self.func = func._schema, func
        self.name = schema.name.partition("::")[2]
        arguments = schema.arguments
        self._written = [
            (index, argument.name, argument.kwarg_only)
            for index, argument in enumerate(arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        aliased = [output.alias_info is not None for output in schema.returns if "Tensor" in str(output.type)]
        self.allocates = bool(aliased) and not any(aliased)
        self.is_view = bool(aliased) and all(aliased) and not self._written
        self.is_random = torch.Tag.nondeterministic_seeded in func.tags
        self.takes_device = self.name != "_to_copy" and any(argument.name == "device" for argument in arguments)
        pointwise = torch.Tag.pointwise in func.tags or self.name.startswith("_foreach_")
        self.accepts_scalars = pointwise or self.name in SCALARS_OF_THE_HOST

    def written(self, args: Any, kwargs: Any) -> list[Tensor]:
        """Return the tensors that the operation writes."""
        values = (kwargs.get(name) if by_name else args[index] for index, name, by_name in self._written)
        return tensors_in(list(values))


operation_of = cache(Operation)


class OperationMode(TorchDispatchMode):
    """Check the devices of an operation, count what it costs on a GPU, and record it if a graph is captured."""

    def __init__(self, gpu: GPUState) -> None:
        super().__init__()
        self.gpu = gpu
        self._last_device = CPU

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            return self._run(operation_of(func), args, kwargs or {})

    def _run(self, operation: Operation, args: Any, kwargs: Any) -> Any:
        gpu = self.gpu
        tensors = tensors_in([args, list(kwargs.values())])
        if operation.name == "copy_":
            device = self._copy(args, kwargs)
        elif operation.name in ("index", "index_put_", "_index_put_impl_", "index_put"):
            device = self._index(operation, args)
        elif operation.takes_device:
            device = gpu.requested_device or (device_of(tensors[0]) if tensors else self._device_of_backward_pass())
        else:
            device = common_device(operation, tensors)
        if tensors:
            self._last_device = device
        default = self._generator(operation, device, kwargs)
        if device.type != "cuda":
            return operation.func(*args, **kwargs)
        gpu.initialized = True
        if operation.name in SYNCHRONIZING or (
            operation.name == "repeat_interleave" and kwargs.get("output_size") is None
        ):
            gpu.synchronize(operation.name)
        if gpu.capture is not None:
            gpu.capture.check_stream(operation.name, device)
            with default_generator_in_use(default) if default else contextlib.nullcontext():
                results = gpu.capture.run(operation, args, kwargs, default)
        else:
            gpu.kernel_launches += not operation.is_view
            with default_generator_in_use(default) if default else contextlib.nullcontext():
                results = operation.func(*args, **kwargs)
        if operation.allocates:
            gpu.allocations += sum(claim(tensor, device) for tensor in tensors_in(results))
        return results

    def _device_of_backward_pass(self) -> torch.device:
        """Return the device of tensors that torch makes in a backward pass, such as zeros for a missing gradient."""
        return self._last_device if torch._C._current_graph_task_id() >= 0 else CPU

    def _generator(self, operation: Operation, device: torch.device, kwargs: Any) -> RealGenerator | None:
        """Check the generator of an operation; return the default one if it names none and is on a GPU."""
        generator = kwargs.get("generator")
        if generator is None:
            return self.gpu.default_generators[device.index] if operation.is_random and device.type == "cuda" else None
        actual = device_of_generator(generator)
        if actual != device:
            raise RuntimeError(
                f"{operation.name}: expected a generator of {device}, found one of {actual} at {call_site()}"
            )
        if self.gpu.capture is not None and device.type == "cuda":
            self.gpu.capture.check_generator(operation.name, generator)
        return None

    def _copy(self, args: Any, kwargs: Any) -> torch.device:
        """Count a copy; return the device whose stream it is on."""
        target, source = device_of(args[0]), device_of(args[1])
        if target == source:
            return target
        non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
        host = args[0] if target.type == "cpu" else args[1]
        self.gpu.copy(source, target, non_blocking and (is_pinned(host) or CPU not in (source, target)))
        return source if target.type == "cpu" else target

    def _index(self, operation: Operation, args: Any) -> torch.device:
        """Count the waits of an advanced index; return the device of the indexed tensor."""
        device, indices = device_of(args[0]), [index for index in args[1] if index is not None]
        masks = [index for index in indices if index.dtype in (torch.bool, torch.uint8)]
        if device.type == "cpu":
            if any(device_of(index).type == "cuda" for index in indices):
                raise mixed(operation, [args[0], *indices])
            return common_device(operation, [args[0], *args[2:3]]) if len(args) > 2 else device
        if len(args) > 2:
            value = args[2]
            accumulate = len(args) > 3 and args[3]
            scalar = device_of(value).type == "cpu" and value.numel() == 1
            if scalar and not accumulate and len(indices) == 1 and masks and device_of(masks[0]) == device:
                return device  # torch calls masked_fill_ instead
            if device_of(value) != device:
                if value.dim():
                    raise mixed(operation, [args[0], value])
                self.gpu.copy(device_of(value), device, False)
        for index in indices:
            if device_of(index).type == "cpu":
                self.gpu.copy(CPU, device, False)
            elif device_of(index) != device:
                raise mixed(operation, [args[0], index])
        if masks:
            self.gpu.synchronize(f"{operation.name} with a mask")
        return device


def common_device(operation: Operation, tensors: list[Tensor]) -> torch.device:
    """Return the device of an operation's tensors.

    Raises:
        RuntimeError: They are of several devices; scalars of the CPU are accepted by some operations.
    """
    devices = {device_of(tensor) for tensor in tensors}
    if len(devices) <= 1:
        return devices.pop() if devices else CPU
    gpus = [device for device in devices if device.type == "cuda"]
    scalars = all(tensor.dim() == 0 for tensor in tensors if device_of(tensor).type == "cpu")
    if len(gpus) == 1 and scalars and operation.accepts_scalars:
        return gpus[0]
    raise mixed(operation, tensors)


def mixed(operation: Operation, tensors: list[Tensor]) -> RuntimeError:
    """Return the error of an operation on tensors of several devices."""
    listing = ", ".join(f"{device_of(tensor)} {tuple(tensor.shape)}" for tensor in tensors)
    return RuntimeError(
        f"{operation.name}: Expected all tensors to be on the same device, but found {listing} at {call_site()}"
    )
