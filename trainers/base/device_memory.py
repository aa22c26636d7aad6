"""Free memory of a device."""

from __future__ import annotations

import math
from pathlib import Path

import torch

__all__ = ["free_memory"]


def free_memory(device: torch.device) -> float:
    """Return the number of bytes that can still be allocated on a device; infinity if the system does not report it."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    meminfo = Path("/proc/meminfo")
    for line in meminfo.read_text(encoding="ascii").splitlines() if meminfo.exists() else ():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return min(int(value.split()[0]) * 1024, _container_limit())
    return math.inf


def _container_limit() -> float:
    """Return the number of bytes that a container (cgroup v2) may still use; infinity without a limit."""
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if not limit.exists() or (size := limit.read_text(encoding="ascii").strip()) == "max":
        return math.inf
    return max(int(size) - int(used.read_text(encoding="ascii")), 0)
