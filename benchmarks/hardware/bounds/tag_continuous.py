"""The C step of TagContinuous-v0: 5 taggers, 100 runners, the 10 nearest observed, no exits."""

import ctypes
from typing import ClassVar

import numpy as np
import torch

from benchmarks.hardware.bounds.build import Bound, episode_fields

TAGGERS, RUNNERS, NEAREST = 5, 100, 10
AGENTS, WIDTH = TAGGERS + RUNNERS, 7 * NEAREST + 1
CONFIG = {"runner_exits_game_after_tagged": False}  # differences from the environment's defaults


def action_table(high: float, levels: int = 10) -> torch.Tensor:
    """Return float32 levels between -high and high, with a leading 0 for the no-op."""
    high = float(np.float32(high))
    return torch.from_numpy(np.concatenate([[0.0], np.linspace(-high, high, levels)]).astype(np.float32))


class TagContinuousBound(Bound):
    """A batch of worlds stepped by ``tag_continuous.c``.

    Args:
        num_envs: Number of worlds.
        threads: Number of OpenMP threads.
    """

    source = "tag_continuous"
    fields: ClassVar = {
        "action": (torch.int64, (AGENTS, 2)),
        "pos": (torch.float32, (AGENTS, 2)),
        "speed": (torch.float32, (AGENTS,)),
        "acceleration": (torch.float32, (AGENTS,)),
        "direction": (torch.float32, (AGENTS,)),
        **episode_fields(AGENTS, WIDTH),
    }
    constants: ClassVar = {
        "accelerations": ctypes.c_void_p,
        "turns": ctypes.c_void_p,
        "seed": ctypes.c_uint64,
        "max_steps": ctypes.c_int32,
        "length": ctypes.c_float,
        "max_speed": ctypes.c_float,
        "margin": ctypes.c_float,
        "tag_reward": ctypes.c_float,
        "tag_penalty": ctypes.c_float,
        "end_reward": ctypes.c_float,
    }

    def __init__(self, num_envs: int, threads: int) -> None:
        constants = {
            "accelerations": action_table(0.1),
            "turns": action_table(2.35),
            "seed": 1,
            "max_steps": 500,
            "length": 20.0,
            "max_speed": 1.0,
            "margin": 0.02 * 20.0,
            "tag_reward": 10.0,
            "tag_penalty": -10.0,
            "end_reward": 1.0,
        }
        super().__init__(num_envs, threads, constants)
