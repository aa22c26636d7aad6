"""Stand-ins for the functions of torch.cuda, by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from pretended_gpu.graphs import graph_classes
from pretended_gpu.state import GPUState
from pretended_gpu.streams import Stream, stream_classes

TOTAL_MEMORY = 80 << 30
"""Memory of a pretended GPU [bytes]; the free memory is always three quarters of it."""
CAPABILITY = (9, 0)


def cuda_functions(gpu: GPUState) -> dict[str, Any]:
    """Return the replacements for attributes of torch.cuda."""
    stream_class, event_class = stream_classes(gpu)
    graph_class, graph = graph_classes(gpu)
    return {
        "Stream": stream_class,
        "Event": event_class,
        "CUDAGraph": graph_class,
        "graph": graph,
        **_devices(gpu),
        **_streams(gpu),
        **_memory(gpu),
        **_random(gpu),
    }


def accelerator_functions(gpu: GPUState) -> dict[str, Any]:
    """Return the replacements for attributes of torch.accelerator, by which torch names any kind of GPU."""
    return {
        "is_available": lambda: True,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "device_count": lambda: gpu.num_devices,
        "current_device_index": lambda: gpu.current_device,
        "current_stream": lambda device=None: gpu.current_stream(gpu.resolve(device)),
    }


def _devices(gpu: GPUState) -> dict[str, Any]:
    @contextlib.contextmanager
    def device(target: Any) -> Iterator[None]:
        previous, chosen = gpu.current_device, gpu.resolve(target)
        if chosen.type == "cuda":
            gpu.current_device = chosen.index
        try:
            yield
        finally:
            gpu.current_device = previous

    def current_device() -> int:
        gpu.initialized = True
        return gpu.current_device

    def set_device(target: Any) -> None:
        gpu.current_device = gpu.resolve(target).index

    def initialize() -> None:
        gpu.initialized = True

    def properties(target: Any = None) -> SimpleNamespace:
        index = gpu.resolve(target).index
        return SimpleNamespace(
            name="pretended GPU",
            total_memory=TOTAL_MEMORY,
            multi_processor_count=132,
            major=CAPABILITY[0],
            minor=CAPABILITY[1],
            uuid=f"GPU-{index}",
        )

    def synchronize(target: Any = None) -> None:
        gpu.resolve(target)
        gpu.synchronize("torch.cuda.synchronize", flagged=False)

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: gpu.initialized,
        "device_count": lambda: gpu.num_devices,
        "init": initialize,
        "_lazy_init": initialize,
        "device": device,
        "current_device": current_device,
        "set_device": set_device,
        "get_device_properties": properties,
        "get_device_capability": lambda target=None: CAPABILITY,
        "synchronize": synchronize,
        "set_sync_debug_mode": lambda mode: setattr(gpu, "sync_debug_mode", mode),
    }


def _streams(gpu: GPUState) -> dict[str, Any]:
    @contextlib.contextmanager
    def stream(target: Stream | None) -> Iterator[None]:
        if target is None:
            yield
            return
        device, previous = gpu.current_device, gpu.current_stream(target.device)
        gpu.current_device = target.device.index
        gpu.set_stream(target)
        try:
            yield
        finally:
            gpu.set_stream(previous)
            gpu.current_device = device

    return {
        "stream": stream,
        "set_stream": gpu.set_stream,
        "current_stream": lambda device=None: gpu.current_stream(gpu.resolve(device)),
        "default_stream": lambda device=None: gpu.default_streams[gpu.resolve(device).index],
        "is_current_stream_capturing": lambda: gpu.current_stream(gpu.resolve(None)).is_capturing(),
        "graph_pool_handle": lambda: (0, 0),
    }


def _memory(gpu: GPUState) -> dict[str, Any]:
    return {
        "mem_get_info": lambda device=None: (TOTAL_MEMORY * 3 // 4, TOTAL_MEMORY),
        "memory_allocated": lambda device=None: 0,
        "memory_reserved": lambda device=None: 0,
        "memory_stats": lambda device=None: {"allocation.all.allocated": gpu.allocations},
        "empty_cache": lambda: None,
    }


def _random(gpu: GPUState) -> dict[str, Any]:
    def seed_all(seed: int) -> None:
        for generator in gpu.default_generators:
            generator.manual_seed(seed)

    return {
        "default_generators": gpu.default_generators,
        "manual_seed": lambda seed: gpu.default_generators[gpu.current_device].manual_seed(seed) and None,
        "manual_seed_all": seed_all,
    }
