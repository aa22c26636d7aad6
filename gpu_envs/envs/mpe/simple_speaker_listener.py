"""SimpleSpeakerListener-v0 (2 agents): A speaker names the listener's goal.

The rules are in ``warp_kernels/mpe/simple_speaker_listener.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.definition.environment import EnvDefinition, box, index
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import PUSHES, color_block, landmark_offsets, message_block, own_velocity
from gpu_envs.envs.mpe.scene import Discs, Word, scene
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.mpe import simple_speaker_listener

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.scene import Scene

__all__ = ["AGENTS", "LETTERS", "Config", "action_names", "build", "draw", "observation_blocks"]

AGENTS = ("speaker_0", "listener_0")  # in the order of rows
LETTERS = int(simple_speaker_listener.LETTERS)  # size of the alphabet
AGENT_SIZE, LANDMARK_SIZE = 0.075, 0.04
"""Radii [m], for rendering only."""


@dataclass(frozen=True)
class Config:
    """Settings of SimpleSpeakerListener-v0, with the names and defaults of mpe2."""

    max_cycles: int = setting(25, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Use Box(0, 1) actions (speaker: 3 letters, listener: 5 pushes) instead of Discrete(3) and Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """Rendering: discs shrink when the camera zooms out; if False, they keep their size in the frame."""
    benchmark_data: bool = setting(False)
    """Add mpe2's benchmark data to `info`."""


def build(config: Config) -> EnvDefinition:
    """Build the environment definition."""
    return EnvDefinition(
        rules=simple_speaker_listener.rules(config.continuous_actions, config.benchmark_data),
        params={"accel": 5.0},
        state={
            "pos": (5,),
            "vel": (2,),
            "goal": index((), 3),
            "said": (1, LETTERS),
            "benchmark": (2, int(config.benchmark_data)),
        },
        agents=AGENTS,
        groups={"speaker": (0,), "listener": (1,)},
        observation_spaces={"speaker_0": box(3), "listener_0": box(2 + 2 * 3 + LETTERS)},
        action_spaces={
            "speaker_0": scenario.action_space(config.continuous_actions, 0, LETTERS),
            "listener_0": scenario.action_space(config.continuous_actions),
        },
        max_episode_steps=config.max_cycles,
        time_limit_terminates=False,
        draw=draw,
        info={"benchmark_data": "benchmark"} if config.benchmark_data else {},
    )


def draw(core: "WorldView", envs: torch.Tensor) -> "Scene":
    """Return the scene of these worlds.

    Landmarks, the listener in a pale shade of its goal, the gray speaker and its message.
    """
    from gpu_envs.rendering.scene import BLUE, GRAY, GREEN, RED

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
    """Return the names of the actions of the agent in this row."""
    return list(PUSHES) if row else [f"letter {letter}" for letter in range(LETTERS)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    if row == 0:
        return [color_block("color (r, g, b) of the goal", 0.15, 0.65)]
    return [own_velocity(), landmark_offsets("landmarks", 3), message_block("the speaker's", LETTERS)]
