"""The C step of SimpleTag-v0: one good agent, three adversaries, two obstacles, discrete actions."""

import ctypes
from typing import ClassVar

import torch

from benchmarks.hardware.bounds.build import Bound, episode_fields

AGENTS, ENTITIES, WIDTH = 4, 6, 16


class SimpleTagBound(Bound):
    """A batch of worlds stepped by ``simple_tag.c``.

    Args:
        num_envs: Number of worlds.
        threads: Number of OpenMP threads.
    """

    source = "simple_tag"
    fields: ClassVar = {
        "action": (torch.int64, (AGENTS,)),
        "pos": (torch.float32, (ENTITIES, 2)),
        "vel": (torch.float32, (AGENTS, 2)),
        **episode_fields(AGENTS, WIDTH),
    }
    constants: ClassVar = {"seed": ctypes.c_uint64, "max_steps": ctypes.c_int32}

    def __init__(self, num_envs: int, threads: int) -> None:
        super().__init__(num_envs, threads, {"seed": 1, "max_steps": 25})
