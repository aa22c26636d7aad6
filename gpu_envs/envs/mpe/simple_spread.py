"""SimpleSpread-v0 on the host: settings, spaces, drawing. Rules: ``warp_kernels/mpe/simple_spread.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition
from gpu_envs.mpe import common
from gpu_envs.mpe.camera import Discs, scene
from warp_kernels.mpe import particles, simple_spread

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene


@dataclass(frozen=True)
class Config:
    """Settings of SimpleSpread-v0, under mpe2's names and with its defaults."""

    N: int = setting(3, low=1)
    """Agents, and as many landmarks."""
    local_ratio: float = setting(0.5, low=0.0, high=1.0)
    """Weight of an agent's own penalty; what all share weighs 1 - local_ratio."""
    max_cycles: int = setting(25, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Box(0, 1, (5,)) actions (nothing, left, right, down, up) instead of Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """In pictures, discs shrink as the camera backs away; else they keep their size."""
    benchmark_data: bool = setting(False)
    """Tell mpe2's benchmark figures in `info`."""
    curriculum: bool = setting(False)
    """Start in stage 0, where collisions are free; `core.set_params(curriculum_stage=1)` makes them cost."""
    terminate_on_success: bool = setting(False)
    """End the episode once every landmark is covered."""
    num_agent_neighbors: int | None = setting(None, low=1)
    """Observe only that many other agents, the nearest first; None: all."""
    num_landmark_neighbors: int | None = setting(None, low=1)
    """Observe only that many landmarks, the nearest first; None: all."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    n, seen = config.N, (config.num_agent_neighbors, config.num_landmark_neighbors)
    return common.define(
        config,
        counts={"agent": n},
        widths={"agent": simple_spread.observation_width(n, *seen)},
        rules=simple_spread.rules(n, config.continuous_actions, *seen, config.benchmark_data),
        params={
            "agent_size": 0.15,
            "accel": 5.0,
            "collision_penalty": 1.0,
            "capture_radius": 0.1,
            "local_ratio": config.local_ratio,
            "terminate_on_success": int(config.terminate_on_success),
            "curriculum": int(config.curriculum),
            "curriculum_stage": 0,
        },
        dense=particles.DENSE,
        state={
            "pos": (2 * n,),
            "vel": (n,),
            "force": (n,),
            "nearest": (n,),
            "benchmark": (n, simple_spread.BENCHMARK if config.benchmark_data else 0),
        },
        draw=draw,
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: agents blue, landmarks dark, as MPE colours them."""
    from gpu_envs.rendering import BLUE, DARK

    agents, landmarks = slice(0, core.num_agents), slice(core.num_agents, None)
    parts = Discs(agents, "agent_size", BLUE), Discs(landmarks, 0.05, DARK, target=True)
    return scene(core, envs, *parts)
