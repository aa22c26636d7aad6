"""SimpleReference-v0 on the host: settings, spaces, drawing. Rules: ``warp_kernels/mpe/simple_reference.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition, box, index
from gpu_envs.mpe import common
from gpu_envs.mpe.camera import Discs, Word, scene
from warp_kernels.mpe import simple_reference

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene

AGENTS = ("agent_0", "agent_1")  # in the order of rows
LETTERS = int(simple_reference.LETTERS)  # of the alphabet
SIZE = 0.05
"""Radius of everything [m]; it matters in pictures only."""


@dataclass(frozen=True)
class Config:
    """Settings of SimpleReference-v0, under mpe2's names and with its defaults."""

    local_ratio: float = setting(0.5, low=0.0, high=1.0)
    """Share of an agent's own part in its reward; the rest is the mean of both."""
    max_cycles: int = setting(25, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Box(0, 1, (15,)) actions (5 pushes, then 10 letters) instead of Discrete(50), letter * 5 + push."""
    dynamic_rescaling: bool = setting(True)
    """In pictures, discs shrink as the camera backs away; else they keep their size."""
    benchmark_data: bool = setting(False)
    """Tell mpe2's benchmark figures in `info`: there are none here, so the tensor is empty."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    width = 2 + 2 * 3 + 3 + LETTERS
    space = common.action_space(config.continuous_actions, letters=LETTERS)
    return Definition(
        rules=simple_reference.rules(config.continuous_actions),
        params={"accel": 5.0, "local_ratio": config.local_ratio},
        state={"pos": (5,), "vel": (2,), "goal": index((2,), 3), "said": (2, LETTERS), "benchmark": (2, 0)},
        agents=AGENTS,
        groups={"agent": (0, 1)},
        observation_spaces={agent: box(width) for agent in AGENTS},
        action_spaces=dict.fromkeys(AGENTS, space),
        max_steps=config.max_cycles,
        limit_terminates=False,
        draw=draw,
        info={"benchmark_data": "benchmark"} if config.benchmark_data else {},
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: landmarks; agents in the colour of the landmark they should go to, and their words."""
    from gpu_envs.rendering import BLUE, GREEN, RED

    palette = torch.tensor([RED, GREEN, BLUE], device=core.device)
    destination = core.world_state["goal"][envs].long().flip(1)  # each one's is what the other knows
    said = core.world_state["said"][envs]
    return scene(
        core,
        envs,
        Discs(slice(2, 5), SIZE, palette, target=True),
        Discs(slice(0, 2), SIZE, palette[destination]),
        *(Word(row, said[:, row]) for row in range(2)),
    )
