"""SimpleLine-v0 (4 agents): Agents form a line between two landmarks."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import simple_formation
from gpu_envs.envs.mpe.scenario import offsets, own_position, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, Scene, lines
from warp_kernels.mpe import simple_line

action_names = simple_formation.action_names


@dataclass(frozen=True)
class Config(simple_formation.Config):
    """Settings of SimpleLine-v0, with the names and defaults of mpe2; they are those of SimpleFormation-v0."""


def build(config: Config) -> EnvDefinition:
    rules = simple_line.rules(config.N, config.continuous_actions)
    return simple_formation.define(
        config, rules, simple_line.LANDMARKS, {"agent_size": 0.03, "line_length": 1.25}, draw
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, landmarks dark, and the line between the landmarks."""
    count = core.num_agents
    start, end = core.world_state["pos"][envs, count:].split(1, dim=1)
    landmarks = Discs(slice(count, None), 0.05, DARK, target=True)
    agents = Discs(slice(0, count), "agent_size", BLUE)
    return scene(core, envs, lines(start, end, 0.015, GRAY), landmarks, agents)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [own_velocity(), own_position(), offsets("landmarks", 2)]
