"""SimpleSpeakerListener-v0 (2 agents): A speaker names the listener's goal."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, index
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import (
    PUSHES,
    ParticleConfig,
    color_block,
    landmark_offsets,
    message_block,
    own_velocity,
)
from gpu_envs.envs.mpe.scene import Discs, Word, scene
from gpu_envs.rendering.scene import BLUE, GRAY, GREEN, RED, Scene
from gpu_envs.utils.settings import setting
from warp_kernels.mpe import simple_speaker_listener

LETTERS = int(simple_speaker_listener.LETTERS)  # size of the alphabet
AGENT_SIZE, LANDMARK_SIZE = 0.075, 0.04
"""Radii [m], for rendering only."""


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of SimpleSpeakerListener-v0, with the names and defaults of mpe2."""

    continuous_actions: bool = setting(False)
    """Use Box(0, 1) actions (speaker: 3 letters, listener: 5 pushes) instead of Discrete(3) and Discrete(5)."""


def build(config: Config) -> EnvDefinition:
    return scenario.define(
        config,
        counts={"speaker": 1, "listener": 1},
        widths={"speaker": 3, "listener": 2 + 2 * 3 + LETTERS},
        actions={
            "speaker": scenario.action_space(config.continuous_actions, 0, LETTERS),
            "listener": scenario.action_space(config.continuous_actions),
        },
        rules=simple_speaker_listener.rules(config.continuous_actions, config.benchmark_data),
        params={"accel": 5.0},
        state={
            "pos": (5,),
            "vel": (2,),
            "goal": index((), 3),
            "said": (1, LETTERS),
            "benchmark": (2, int(config.benchmark_data)),
        },
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Landmarks, the listener in a pale shade of its goal, the gray speaker and its message.
    """
    palette = torch.tensor([RED, GREEN, BLUE], device=core.device)
    goal = palette[core.world_state["goal"][envs].long()][:, None]
    return scene(
        core,
        envs,
        Discs(slice(2, 5), LANDMARK_SIZE, palette, target=True),
        Discs(slice(0, 1), AGENT_SIZE, GRAY),
        Discs(slice(1, 2), AGENT_SIZE, 0.5 * goal + 0.5),
        Word(0, core.world_state["said"][envs, 0]),
    )


def action_names(config: Config, row: int) -> list[str]:
    return list(PUSHES) if row else [f"letter {letter}" for letter in range(LETTERS)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    if row == 0:
        return [color_block("color (r, g, b) of the goal", 0.15, 0.65)]
    return [own_velocity(), landmark_offsets("landmarks", 3), message_block("the speaker's", LETTERS)]
