"""Simple-v0 (1 agent): One agent moves to a landmark.

The rules are in ``warp_kernels/mpe/simple.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import action_names, offsets, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.mpe import simple

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.scene import Scene

__all__ = ["Config", "action_names", "build", "draw", "observation_blocks"]


@dataclass(frozen=True)
class Config:
    """Settings of Simple-v0, with the names and defaults of mpe2."""

    max_cycles: int = setting(25, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Use Box(0, 1, (5,)) actions (nothing, left, right, down, up) instead of Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """Rendering: discs shrink when the camera zooms out; if False, they keep their size in the frame."""
    benchmark_data: bool = setting(False)
    """Add mpe2's benchmark data to `info`; empty, because mpe2 has none for this scenario."""


def build(config: Config) -> EnvDefinition:
    """Build the environment definition."""
    return scenario.define(
        config,
        counts={"agent": 1},
        widths={"agent": simple.OBSERVATION},
        rules=simple.rules(config.continuous_actions),
        params={"accel": 5.0},
        state={"pos": (2,), "vel": (1,), "benchmark": (1, 0)},
        draw=draw,
    )


def draw(core: "WorldView", envs: torch.Tensor) -> "Scene":
    """Return the scene of these worlds: the agent dark, the landmark red, with the colors of MPE."""
    from gpu_envs.rendering.scene import DARK, RED

    landmark, agent = slice(1, 2), slice(0, 1)
    return scene(core, envs, Discs(landmark, 0.05, RED, target=True), Discs(agent, 0.05, DARK))


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent."""
    return [own_velocity(2.0), offsets("the landmark", 1)]  # full throttle: 5 N * 0.1 s / 0.25
