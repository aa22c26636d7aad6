"""SimplePush-v0 on the host: settings, spaces, drawing. Rules: ``warp_kernels/mpe/simple_push.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition, index
from gpu_envs.mpe import common
from gpu_envs.mpe.camera import Discs, scene
from warp_kernels.mpe import particles, simple_push

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene


@dataclass(frozen=True)
class Config:
    """Settings of SimplePush-v0, under mpe2's names and with its defaults."""

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
        counts={"adversary": 1, "agent": 1},
        widths=simple_push.OBSERVATIONS,
        rules=simple_push.rules(config.continuous_actions),
        params={"agent_size": 0.05, "accel": 5.0},
        dense=particles.DENSE,
        state={
            "pos": (4,),
            "vel": (2,),
            "force": (2,),
            "goal": index((), 2),
            "away": (2,),
            "benchmark": (2, 0),
        },
        roles={"adversary": ("adversary",), "agent": ("agent",)},
        draw=draw,
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: landmarks green and blue, the good agent as its goal, the adversary red, as in MPE."""
    from gpu_envs.rendering import BLUE, GREEN, RED

    colours = torch.tensor([GREEN, BLUE], device=core.device)
    goal = core.world_state["goal"][envs].long()
    return scene(
        core,
        envs,
        Discs(slice(2, 4), 0.05, colours, target=True),
        Discs(slice(1, 2), "agent_size", colours[goal][:, None]),
        Discs(slice(0, 1), "agent_size", RED),
    )
