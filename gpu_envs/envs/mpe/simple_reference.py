"""SimpleReference-v0 (2 agents): Each agent knows the goal of the other.

The rules are in ``warp_kernels/mpe/simple_reference.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.definition.environment import EnvDefinition, box, index
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import (
    color_block,
    landmark_offsets,
    message_block,
    own_velocity,
    talk_names,
    talk_parts,
)
from gpu_envs.envs.mpe.scene import Discs, Word, scene
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.mpe import simple_reference

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.scene import Scene

__all__ = ["AGENTS", "LETTERS", "SIZE", "Config", "action_names", "action_parts", "build", "draw", "observation_blocks"]

AGENTS = ("agent_0", "agent_1")  # in the order of rows
LETTERS = int(simple_reference.LETTERS)  # size of the alphabet
SIZE = 0.05
"""Radius of all discs [m], for rendering only."""


@dataclass(frozen=True)
class Config:
    """Settings of SimpleReference-v0, with the names and defaults of mpe2."""

    local_ratio: float = setting(0.5, ge=0.0, le=1.0)
    """Weight of an agent's own reward; the mean of both agents has the weight 1 - local_ratio."""
    max_cycles: int = setting(25, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Use Box(0, 1, (15,)) actions (5 pushes, then 10 letters) instead of Discrete(50), letter * 5 + push."""
    dynamic_rescaling: bool = setting(True)
    """Rendering: discs shrink when the camera zooms out; if False, they keep their size in the frame."""
    benchmark_data: bool = setting(False)
    """Add mpe2's benchmark data to `info`; empty, because mpe2 has none for this scenario."""


def build(config: Config) -> EnvDefinition:
    """Build the environment definition."""
    width = 2 + 2 * 3 + 3 + LETTERS
    space = scenario.action_space(config.continuous_actions, letters=LETTERS)
    return EnvDefinition(
        rules=simple_reference.rules(config.continuous_actions),
        params={"accel": 5.0, "local_ratio": config.local_ratio},
        state={"pos": (5,), "vel": (2,), "goal": index((2,), 3), "said": (2, LETTERS), "benchmark": (2, 0)},
        agents=AGENTS,
        groups={"agent": (0, 1)},
        observation_spaces={agent: box(width) for agent in AGENTS},
        action_spaces=dict.fromkeys(AGENTS, space),
        max_episode_steps=config.max_cycles,
        time_limit_terminates=False,
        draw=draw,
        info={"benchmark_data": "benchmark"} if config.benchmark_data else {},
    )


def draw(core: "WorldView", envs: torch.Tensor) -> "Scene":
    """Return the scene of these worlds: landmarks, agents in the color of their goal landmark, and their messages."""
    from gpu_envs.rendering.scene import BLUE, GREEN, RED

    palette = torch.tensor([RED, GREEN, BLUE], device=core.device)
    destination = core.world_state["goal"][envs].long().flip(1)  # an agent's goal is known to the other agent
    loudness = core.world_state["said"][envs]
    return scene(
        core,
        envs,
        Discs(slice(2, 5), SIZE, palette, target=True),
        Discs(slice(0, 2), SIZE, palette[destination]),
        *(Word(row, loudness[:, row]) for row in range(2)),
    )


def action_names(config: Config, row: int) -> list[str]:
    """Return the names of the actions of the agent in this row."""
    return talk_names(LETTERS)


def action_parts(config: Config, row: int) -> list[str]:
    """Return the names of the components of a continuous action."""
    return talk_parts(LETTERS)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    color = color_block("color (r, g, b) of the other agent's goal landmark", 0.25, 0.75)
    message = message_block("the other agent's", LETTERS)
    return [own_velocity(), landmark_offsets("landmarks", 3), color, message]
