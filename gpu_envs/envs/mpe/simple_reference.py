"""SimpleReference-v0 (2 agents): Each agent knows the goal of the other."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, index
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import (
    ParticleConfig,
    color_block,
    landmark_offsets,
    message_block,
    own_velocity,
    talk_names,
    talk_parts,
)
from gpu_envs.envs.mpe.scene import Discs, Word, scene
from gpu_envs.rendering.scene import BLUE, GREEN, RED, Scene
from gpu_envs.utils.settings import setting
from warp_kernels.mpe import simple_reference

LETTERS = int(simple_reference.LETTERS)  # size of the alphabet
SIZE = 0.05
"""Radius of all discs [m], for rendering only."""


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of SimpleReference-v0, with the names and defaults of mpe2."""

    local_ratio: float = setting(0.5, ge=0.0, le=1.0)
    """Weight of an agent's own reward; the mean of both agents has the weight 1 - local_ratio."""
    continuous_actions: bool = setting(False)
    """Use Box(0, 1, (15,)) actions (5 pushes, then 10 letters) instead of Discrete(50), letter * 5 + push."""


def build(config: Config) -> EnvDefinition:
    return scenario.define(
        config,
        counts={"agent": 2},
        widths={"agent": 2 + 2 * 3 + 3 + LETTERS},
        actions={"agent": scenario.action_space(config.continuous_actions, letters=LETTERS)},
        rules=simple_reference.rules(config.continuous_actions),
        params={"accel": 5.0, "local_ratio": config.local_ratio},
        state={"pos": (5,), "vel": (2,), "goal": index((2,), 3), "said": (2, LETTERS), "benchmark": (2, 0)},
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: landmarks, agents in the color of their goal landmark, and their messages."""
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
    return talk_names(LETTERS)


def action_parts(config: Config, row: int) -> list[str]:
    return talk_parts(LETTERS)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    color = color_block("color (r, g, b) of the other agent's goal landmark", 0.25, 0.75)
    message = message_block("the other agent's", LETTERS)
    return [own_velocity(), landmark_offsets("landmarks", 3), color, message]
