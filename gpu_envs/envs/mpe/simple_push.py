"""SimplePush-v0 (2 agents): An adversary keeps an agent from its goal.

The rules are in ``warp_kernels/mpe/simple_push.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.definition.environment import EnvDefinition, index
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import action_names, color_block, goal_offset, offsets, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.mpe import simple_push

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.scene import Scene

__all__ = ["Config", "action_names", "build", "draw", "observation_blocks"]


@dataclass(frozen=True)
class Config:
    """Settings of SimplePush-v0, with the names and defaults of mpe2."""

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
        counts={"adversary": 1, "agent": 1},
        widths=simple_push.OBSERVATIONS,
        rules=simple_push.rules(config.continuous_actions),
        params={"agent_size": 0.05, "accel": 5.0},
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


def draw(core: "WorldView", envs: torch.Tensor) -> "Scene":
    """Return the scene of these worlds.

    Landmarks green and blue, the good agent as its goal, the adversary red, as in MPE.
    """
    from gpu_envs.rendering.scene import BLUE, GREEN, RED

    colors = torch.tensor([GREEN, BLUE], device=core.device)
    goal = core.world_state["goal"][envs].long()
    return scene(
        core,
        envs,
        Discs(slice(2, 4), 0.05, colors, target=True),
        Discs(slice(1, 2), "agent_size", colors[goal][:, None]),
        Discs(slice(0, 1), "agent_size", RED),
    )


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    landmarks, other = offsets("landmarks", 2), offsets("the other agent", 1)
    if row == 0:
        return [own_velocity(), landmarks, other]
    color = color_block("own color (r, g, b): 0.75 in the goal's channel (green or blue), else 0.25", 0.25, 0.75)
    colors = color_block("colors of the landmarks (r, g, b of each): green, blue", 0.1, 0.9, 2)
    return [own_velocity(), goal_offset(), color, landmarks, colors, other]
