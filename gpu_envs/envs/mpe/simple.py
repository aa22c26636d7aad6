"""Simple-v0 (1 agent): One agent moves to a landmark."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import ParticleConfig, offsets, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.rendering.scene import DARK, RED, Scene
from warp_kernels.mpe import simple

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of Simple-v0, with the names and defaults of mpe2."""


def build(config: Config) -> EnvDefinition:
    return scenario.define(
        config,
        counts={"agent": 1},
        widths={"agent": simple.OBSERVATION},
        rules=simple.rules(config.continuous_actions),
        params={"accel": 5.0},
        state={"pos": (2,), "vel": (1,), "benchmark": (1, 0)},
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: the agent dark, the landmark red, with the colors of MPE."""
    landmark, agent = slice(1, 2), slice(0, 1)
    return scene(core, envs, Discs(landmark, 0.05, RED, target=True), Discs(agent, 0.05, DARK))


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [own_velocity(2.0), offsets("the landmark", 1)]  # full throttle: 5 N * 0.1 s / 0.25
