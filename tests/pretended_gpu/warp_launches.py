"""Launches of Warp kernels for a GPU that run on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
import warp as wp
from torch.multiprocessing.reductions import StorageWeakRef

from pretended_gpu.claims import storage_of
from pretended_gpu.state import GPUState, call_site
from pretended_gpu.streams import Stream


def warp_devices(count: int) -> list[wp.Device]:
    """Return GPUs as Warp sees them, which allocate as the CPU does."""
    devices = []
    for index in range(count):
        device = wp.Device.__new__(wp.Device)
        device.__dict__.update(wp.get_device("cpu").__dict__)
        device.alias, device.ordinal, device.name, device.arch = f"cuda:{index}", index, "pretended GPU", 90
        device.sm_count, device.is_primary, device._context = 132, True, object()
        devices.append(device)
    return devices


class Launch:
    """Stand-in for wp.Launch on a GPU.

    Attributes:
        block_dim: The requested number of threads per block; None: Warp's default.
    """

    def __init__(self, gpu: GPUState, command: Any, device: wp.Device, block_dim: int | None) -> None:
        self._gpu, self._command, self.device, self.block_dim = gpu, command, device, block_dim
        self._is_tiled = block_dim is not None
        self.kernel, self.bounds = command.kernel, command.bounds
        self._torch_device = torch.device("cuda", device.ordinal)
        arrays = [array for argument in command.fwd_args for array in arrays_in(argument)]
        for array in arrays:
            if array.device is not device:
                raise RuntimeError(
                    f"{command.kernel.key}: an array on {array.device} in a launch on {device}: {call_site()}"
                )
        storages = [storage_of(array._tensor) for array in arrays if hasattr(array, "_tensor")]
        self._memory = [StorageWeakRef(storage) for storage in storages if storage is not None]

    def set_param_at_index(self, index: int, value: Any) -> None:
        """Set an argument of later launches."""
        self._command.set_param_at_index(index, value)

    def set_dim(self, dim: Any) -> None:
        """Set the number of threads of later launches."""
        self._command.set_dim(one_thread_per_block(dim) if self._is_tiled else dim)

    def launch(self, stream: Any = None) -> None:
        """Run the kernel, or record it if a graph is captured. Like Warp, make the GPU of the launch the current one.

        Raises:
            RuntimeError: The stream is not torch's current stream of the GPU, or the memory of an array was freed.
        """
        gpu, current = self._gpu, self._gpu.current_stream(self._torch_device)
        gpu.current_device = self.device.ordinal
        if stream is not current:
            raise RuntimeError(
                f"{self.kernel.key}: launched on {name_of(stream)}, which is not the current stream of torch, "
                f"{name_of(current)}: work before and after the launch is not in order: {call_site()}"
            )
        if gpu.capture is None:
            check_memory(self.kernel.key, self._memory)
            gpu.kernel_launches += 1
            self._command.launch()
            return
        gpu.capture.check_stream(self.kernel.key, self._torch_device)
        recorded, name, memory = copy.copy(self._command), self.kernel.key, self._memory
        recorded.params = [type(param).from_buffer_copy(param) for param in self._command.params]  # as they are now
        recorded.fwd_args = None  # a graph keeps no arrays

        def run() -> None:
            check_memory(name, memory)
            recorded.launch()

        gpu.capture.record_host_function(run)


def one_thread_per_block(dim: Any) -> Any:
    """Return the dimensions of a launch of blocks for the CPU, where one thread computes a tile."""
    return (*tuple(dim)[:-1], 1)


def check_memory(kernel: str, memory: list[StorageWeakRef]) -> None:
    """Raise an error if the memory of an array was freed."""
    if any(reference.expired() for reference in memory):
        raise RuntimeError(f"{kernel}: an array of the launch was freed: {call_site()}")


def arrays_in(argument: Any) -> list[wp.array]:
    """Return the arrays of an argument of a kernel: itself, or the fields of a struct."""
    if isinstance(argument, wp.array):
        return [argument] if argument.ptr else []
    names = getattr(getattr(argument, "_cls", None), "vars", {})
    return [array for name in names for array in arrays_in(getattr(argument, name))]


def name_of(stream: Any) -> str:
    """Return a stream in the words of a message."""
    return f"stream {stream.cuda_stream} of {stream.device}" if isinstance(stream, Stream) else "Warp's own stream"


def launch_function(gpu: GPUState) -> Any:
    """Return the replacement for wp.launch."""
    real = wp.launch

    def launch(
        kernel: Any,
        dim: Any,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        device: Any = None,
        stream: Any = None,
        record_cmd: bool = False,
        block_dim: int | None = None,
        **settings: Any,
    ) -> Any:
        target = wp.get_device(device)
        arguments = {"inputs": list(inputs), "outputs": list(outputs)}
        if target.is_cpu:
            settings |= {"stream": stream, "record_cmd": record_cmd, "block_dim": block_dim}
            return real(kernel, dim, **arguments, device=target, **settings)
        if block_dim is not None:
            dim = one_thread_per_block(dim)
        command = real(kernel, dim, **arguments, device="cpu", record_cmd=True, **settings)
        recorded = Launch(gpu, command, target, block_dim)
        return recorded if record_cmd else recorded.launch(stream)

    return launch
