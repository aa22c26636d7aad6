"""SimpleLine-v0 (4 agents): Agents form a line between two landmarks.

The rules are in ``warp_kernels/mpe/simple_line.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import simple_formation
from gpu_envs.envs.mpe.scenario import action_names, offsets, own_position, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene
from warp_kernels.mpe import simple_line

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.scene import Scene

__all__ = ["Config", "action_names", "build", "draw", "observation_blocks"]


@dataclass(frozen=True)
class Config(simple_formation.Config):
    """Settings of SimpleLine-v0, with the names and defaults of mpe2; they are those of SimpleFormation-v0."""


def build(config: Config) -> EnvDefinition:
    """Build the environment definition."""
    rules = simple_line.rules(config.N, config.continuous_actions)
    return simple_formation.define(
        config, rules, simple_line.LANDMARKS, {"agent_size": 0.03, "line_length": 1.25}, draw
    )


def draw(core: "WorldView", envs: torch.Tensor) -> "Scene":
    """Return the scene of these worlds: agents blue, landmarks dark, and the line between the landmarks."""
    from gpu_envs.rendering.scene import BLUE, DARK, GRAY, lines

    count = core.num_agents
    start, end = core.world_state["pos"][envs, count:].split(1, dim=1)
    landmarks = Discs(slice(count, None), 0.05, DARK, target=True)
    agents = Discs(slice(0, count), "agent_size", BLUE)
    return scene(core, envs, lines(start, end, 0.015, GRAY), landmarks, agents)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    return [own_velocity(), own_position(), offsets("landmarks", 2)]
