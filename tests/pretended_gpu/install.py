"""Installation of the pretended GPU, and its removal."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import warp as wp
from torch.autograd.function import BackwardCFunction

import warp_kernels
from gpu_envs.runtime.launcher import KernelLauncher
from pretended_gpu.claims import device_of
from pretended_gpu.cuda_api import accelerator_functions, cuda_functions
from pretended_gpu.functions import FunctionMode
from pretended_gpu.generators import generator_class
from pretended_gpu.operations import OperationMode
from pretended_gpu.state import GPUState
from pretended_gpu.warp_launches import launch_function, warp_devices

__all__ = ["activate"]


@contextlib.contextmanager
def activate(num_devices: int = 2) -> Iterator[GPUState]:
    """Pretend CUDA devices in the block, for torch and for Warp, also in threads that start meanwhile.

    Args:
        num_devices: Number of GPUs.

    Yields:
        Their state, which counts synchronizations and graph launches.
    """
    warp_kernels.start()
    gpu = GPUState(num_devices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "Generator", generator_class(gpu))
        for name, value in cuda_functions(gpu).items():
            patch.setattr(torch.cuda, name, value)
        patch.setattr(torch.backends.cuda, "is_built", lambda: True)
        patch.setattr(torch._C, "_group_tensors_by_device_and_dtype", grouped_by_device)
        for name, value in accelerator_functions(gpu).items():
            patch.setattr(torch.accelerator, name, value)
        devices, runtime = warp_devices(num_devices), wp._src.context.runtime
        patch.setattr(runtime, "cuda_devices", devices)
        patch.setattr(runtime, "get_current_cuda_device", lambda: devices[gpu.current_device])
        for device in devices:
            patch.setitem(runtime.device_map, device.alias, device)
        patch.setattr(wp, "launch", launch_function(gpu))
        patch.setattr(wp, "stream_from_torch", lambda stream=None: stream or gpu.current_stream(gpu.resolve(None)))
        patch.setattr(KernelLauncher, "__init__", without_contraction(KernelLauncher.__init__))
        patch.setattr(BackwardCFunction, "apply", in_function_mode(gpu, BackwardCFunction.apply))
        run = threading.Thread.run

        def run_in_modes(thread: threading.Thread) -> None:
            with modes(gpu):
                run(thread)

        patch.setattr(threading.Thread, "run", run_in_modes)
        with modes(gpu):
            yield gpu


@contextlib.contextmanager
def modes(gpu: GPUState) -> Iterator[None]:
    """Watch the operations of this thread."""
    with OperationMode(gpu), FunctionMode(gpu):
        yield


def in_function_mode(gpu: GPUState, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call that sees claimed devices: torch runs the backward passes of Python functions without modes."""

    def call_in_mode(*args: Any) -> Any:
        with FunctionMode(gpu), gpu.requesting(None):
            return call(*args)

    return call_in_mode


def without_contraction(make: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor of launchers that compiles for a GPU as for the CPU: no fused multiply-adds by default."""

    def make_launcher(self: KernelLauncher, rules: Any, schedule: str, fuse_fp: bool, *settings: Any) -> None:
        make(self, rules, schedule, False, *settings)

    return make_launcher


def grouped_by_device(lists: list[list[Any]], with_indices: bool = False) -> dict[Any, Any]:
    """Group rows of tensors by the claimed device and the type of the first one, as optimizers do in C++."""
    groups: dict[Any, tuple[list[list[Any]], list[int]]] = defaultdict(lambda: ([[] for _ in lists], []))
    for row, tensors in enumerate(zip(*(each or [None] * len(lists[0]) for each in lists), strict=True)):
        columns, indices = groups[device_of(tensors[0]), tensors[0].dtype]
        for column, tensor, given in zip(columns, tensors, lists, strict=True):
            if given:
                column.append(tensor)
        indices.append(row)
    return {key: (columns, indices if with_indices else []) for key, (columns, indices) in groups.items()}
