"""SimpleSpeakerListener-v0 on the host: settings, agents, spaces, drawing.

Rules: ``warp_kernels/mpe/simple_speaker_listener.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition, box, index
from gpu_envs.mpe import common
from gpu_envs.mpe.camera import Discs, Word, scene
from warp_kernels.mpe import simple_speaker_listener

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene

AGENTS = ("speaker_0", "listener_0")  # in the order of rows
LETTERS = int(simple_speaker_listener.LETTERS)  # of the alphabet
AGENT_SIZE, LANDMARK_SIZE = 0.075, 0.04
"""Radii [m]; they matter in pictures only."""


@dataclass(frozen=True)
class Config:
    """Settings of SimpleSpeakerListener-v0, under mpe2's names and with its defaults."""

    max_cycles: int = setting(25, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Box(0, 1) actions (speaker: 3 letters, listener: 5 pushes) instead of Discrete(3) and Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """In pictures, discs shrink as the camera backs away; else they keep their size."""
    benchmark_data: bool = setting(False)
    """Tell mpe2's benchmark figures in `info`."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    return Definition(
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
            "speaker_0": common.action_space(config.continuous_actions, 0, LETTERS),
            "listener_0": common.action_space(config.continuous_actions),
        },
        max_steps=config.max_cycles,
        limit_terminates=False,
        draw=draw,
        info={"benchmark_data": "benchmark"} if config.benchmark_data else {},
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: landmarks; the listener in a pale shade of its goal; the grey speaker and its word."""
    from gpu_envs.rendering import BLUE, GREEN, GREY, RED

    palette = torch.tensor([RED, GREEN, BLUE], device=core.device)
    goal = palette[core.world_state["goal"][envs].long()][:, None]
    return scene(
        core,
        envs,
        Discs(slice(2, 5), LANDMARK_SIZE, palette, target=True),
        Discs(slice(0, 1), AGENT_SIZE, GREY),
        Discs(slice(1, 2), AGENT_SIZE, 0.5 * goal + 0.5),
        Word(0, core.world_state["said"][envs, 0]),
    )
