"""Simple-v0 on the host: settings, agents, spaces, and how to draw it. Rules: ``warp_kernels/mpe/simple.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition
from gpu_envs.mpe import common
from gpu_envs.mpe.camera import Discs, scene
from warp_kernels.mpe import simple

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene


@dataclass(frozen=True)
class Config:
    """Settings of Simple-v0, under mpe2's names and with its defaults."""

    max_cycles: int = setting(25, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Box(0, 1, (5,)) actions (nothing, left, right, down, up) instead of Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """In pictures, discs shrink as the camera backs away; else they keep their size."""
    benchmark_data: bool = setting(False)
    """Tell mpe2's benchmark figures in `info`; for this scenario it has none, and they are empty."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    return common.define(
        config,
        counts={"agent": 1},
        widths={"agent": simple.OBSERVATION},
        rules=simple.rules(config.continuous_actions),
        params={"accel": 5.0},
        state={"pos": (2,), "vel": (1,), "benchmark": (1, 0)},
        draw=draw,
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: the agent dark, the landmark red, as MPE colours them."""
    from gpu_envs.rendering import DARK, RED

    landmark, agent = slice(1, 2), slice(0, 1)
    return scene(core, envs, Discs(landmark, 0.05, RED, target=True), Discs(agent, 0.05, DARK))
