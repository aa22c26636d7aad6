"""Installation of the pretended GPU, and its removal."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
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
from pretended_gpu.streams import Stream
from pretended_gpu.warp_launches import launch_function, warp_devices

NUM_DEVICES = 2
"""Number of pretended GPUs."""


@contextlib.contextmanager
def activate() -> Iterator[GPUState]:
    """Pretend CUDA devices in the block, for torch and for Warp, also in threads that start meanwhile.

    Streams and generators stay valid from one activation to the next, as caches of the product may hold them.

    Yields:
        State of the GPUs, which counts synchronizations and graph launches.

    Raises:
        RuntimeError: They are active already.
    """
    gpu, replacements, warp_gpus = prepare()
    if torch.cuda.Stream is Stream:
        raise RuntimeError("the pretended GPU is active already")
    gpu.reset()
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, value in replacements:
            patch.setattr(owner, name, value)
        for device in warp_gpus:
            patch.setitem(wp._src.context.runtime.device_map, device.alias, device)
        with modes(gpu):
            yield gpu


@cache
def prepare() -> tuple[GPUState, list[tuple[Any, str, Any]], list[wp.Device]]:
    """Return the GPUs, the attributes to replace with their values, and the GPUs as Warp sees them."""
    warp_kernels.start()
    gpu, warp_gpus = GPUState(NUM_DEVICES), warp_devices(NUM_DEVICES)
    run, runtime = threading.Thread.run, wp._src.context.runtime

    def run_in_modes(thread: threading.Thread) -> None:
        with modes(gpu):
            run(thread)

    return (
        gpu,
        [
            (torch, "Generator", generator_class(gpu)),
            *((torch.cuda, name, value) for name, value in cuda_functions(gpu).items()),
            *((torch.accelerator, name, value) for name, value in accelerator_functions(gpu).items()),
            (torch.backends.cuda, "is_built", lambda: True),
            (torch._C, "_group_tensors_by_device_and_dtype", grouped_by_device),
            (BackwardCFunction, "apply", in_function_mode(gpu, BackwardCFunction.apply)),
            (threading.Thread, "run", run_in_modes),
            (runtime, "cuda_devices", warp_gpus),
            (runtime, "get_current_cuda_device", lambda: warp_gpus[gpu.current_device]),
            (wp, "launch", launch_function(gpu)),
            (wp, "stream_from_torch", lambda stream=None: stream or gpu.current_stream(gpu.resolve(None))),
            (KernelLauncher, "__init__", without_contraction(KernelLauncher.__init__)),
        ],
        warp_gpus,
    )


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
    for row, tensors in enumerate(zip(*(items or [None] * len(lists[0]) for items in lists), strict=True)):
        columns, indices = groups[device_of(tensors[0]), tensors[0].dtype]
        for column, tensor, source in zip(columns, tensors, lists, strict=True):
            if source:
                column.append(tensor)
        indices.append(row)
    return {key: (columns, indices if with_indices else []) for key, (columns, indices) in groups.items()}
