"""Kernels, built once per process, and the choice of schedule, shards, threads and threads per block."""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from typing import Any

import torch

from warp_kernels.framework.schedules import Program, build, build_play
from warp_kernels.rules import Rules

SCHEDULES = ("fused", "block", "phased")
"""Ways to run a step, see :mod:`warp_kernels.framework.schedules`."""

MAX_FUSED_AGENTS = 8
"""Most agents per world with which a GPU thread plays a whole world; with more, threads share the agents."""

MAX_BLOCK_AGENTS = 1024
"""Most agents per world with which a block of a GPU plays a whole world; with more, they need several blocks."""

MIN_ROWS_PER_THREAD = 4096
"""Fewest agent rows worth waking a second CPU thread."""

MIN_ROWS_PER_SHARD = 1024
"""Fewest agent rows of a shard, the unit of work of a CPU thread."""

MIN_WORLDS_PER_ROLLOUT_SHARD = 8
"""Fewest worlds of a shard of rollouts with policies; some worlds act together."""

SHARDS_PER_THREAD = 8
"""Most shards per CPU thread; a late thread runs fewer of them."""

BLOCK_DIMS = (32, 64, 128, 256)
"""Sizes of the blocks of GPU launches [threads]. Warp compiles for 256; any number of registers fits."""

SMALL_BLOCK, LARGE_BLOCK = 32, 64
"""Sizes that are chosen. A multiprocessor holds enough blocks of 64 threads to be full, and larger ones never raise the
occupancy, whatever registers a kernel needs: it is then that of whole blocks that fit into the registers."""

BLOCKS_PER_MULTIPROCESSOR = 4
"""Fewest blocks per multiprocessor with which a larger block is used; the busiest one then has at most 5 for 4."""


@cache
def kernel_program(rules: Rules, schedule: str, fuse_fp: bool) -> Program:
    """Return the kernels of a specialization, built once per process."""
    return build(rules, schedule, fuse_fp)


@cache
def rollout_kernel(rules: Rules, fuse_fp: bool) -> tuple[Any, Any]:
    """Return the kernel of random rollouts and its module, built once per process, and only where one is played."""
    return build_play(rules, fuse_fp)


def choose_schedule(num_agents: int, device: torch.device) -> str:
    """Return "fused" on a CPU, and with few agents on a GPU; with more agents "block", with very many "phased"."""
    if device.type == "cpu" or num_agents <= MAX_FUSED_AGENTS:
        return "fused"
    return "block" if num_agents <= MAX_BLOCK_AGENTS else "phased"


def choose_block_dim(num_threads: int, num_multiprocessors: int) -> int:
    """Return the threads per block of a GPU launch: few, to occupy all multiprocessors and most of their registers.

    Small launches use the smallest blocks, to occupy as many multiprocessors as possible. Large launches use larger
    ones, because the number of blocks that a multiprocessor can hold is limited.

    Args:
        num_threads: Number of threads of the launch.
        num_multiprocessors: Number of multiprocessors of the GPU.
    """
    enough = BLOCKS_PER_MULTIPROCESSOR * num_multiprocessors
    return LARGE_BLOCK if num_threads >= LARGE_BLOCK * enough else SMALL_BLOCK


def threads_of_world(num_agents: int) -> int:
    """Return the threads of a block that plays a world: a thread per agent in whole warps, at most a block's largest.

    In larger worlds a thread plays several agents.
    """
    return min(32 * -(-num_agents // 32), BLOCK_DIMS[-1])


_limit: ContextVar[int | None] = ContextVar("limit", default=None)


@contextlib.contextmanager
def limited_cores(limit: int) -> Iterator[None]:
    """Limit `available_cores` in this thread within the block, for several works that share the cores."""
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def available_cores() -> int:
    """Return the number of CPU cores that this process may use, at most the number that `limited_cores` allows."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _limit.get() or cores)


def choose_threads(num_envs: int, num_agents: int, device: torch.device) -> int:
    """Return the number of CPU threads that the batch can occupy, at most the cores available to this process."""
    if device.type != "cpu":
        return 1
    return max(1, min(available_cores(), num_envs, num_envs * num_agents // MIN_ROWS_PER_THREAD))


def split_worlds(num_envs: int, parts: int) -> list[tuple[int, int]]:
    """Return the first world and the end of each part; the parts are consecutive.

    Args:
        num_envs: Number of worlds E.
        parts: Number of parts. Their sizes differ by at most 1, and larger parts come first.
    """
    size, larger = divmod(num_envs, parts)
    edges = [part * size + min(part, larger) for part in range(parts + 1)]
    return list(pairwise(edges))
