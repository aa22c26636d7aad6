"""The C step of SimpleTag-v0: one good agent, three adversaries, two obstacles, discrete actions."""

import ctypes
from typing import ClassVar

import torch

from benchmarks.hardware.bounds.build import Bound

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
        "obs": (torch.float32, (AGENTS, WIDTH)),
        "final_obs": (torch.float32, (AGENTS, WIDTH)),
        "reward": (torch.float32, (AGENTS,)),
        "running_return": (torch.float32, (AGENTS,)),
        "episode_return": (torch.float32, (AGENTS,)),
        "episode_length": (torch.int32, (AGENTS,)),
        "terminated": (torch.bool, (AGENTS,)),
        "truncated": (torch.bool, (AGENTS,)),
        "alive": (torch.bool, (AGENTS,)),
        "valid": (torch.bool, (AGENTS,)),
        "step": (torch.int32, ()),
        "episode": (torch.int32, ()),
    }
    constants: ClassVar = {"seed": ctypes.c_uint64, "max_steps": ctypes.c_int32}

    def __init__(self, num_envs: int, threads: int) -> None:
        super().__init__(num_envs, threads, {"seed": 1, "max_steps": 25})
