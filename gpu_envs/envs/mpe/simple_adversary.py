"""SimpleAdversary-v0 on the host: settings, spaces, drawing. Rules: ``warp_kernels/mpe/simple_adversary.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition, index
from gpu_envs.mpe import common
from gpu_envs.mpe.camera import Discs, scene
from warp_kernels.mpe import simple_adversary

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene


@dataclass(frozen=True)
class Config:
    """Settings of SimpleAdversary-v0, under mpe2's names and with its defaults."""

    N: int = setting(2, low=1)
    """Good agents, and as many landmarks."""
    max_cycles: int = setting(25, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Box(0, 1, (5,)) actions (nothing, left, right, down, up) instead of Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """In pictures, discs shrink as the camera backs away; else they keep their size."""
    benchmark_data: bool = setting(False)
    """Tell mpe2's benchmark figures in `info`."""
    num_agent_neighbors: int | None = setting(None, low=1)
    """Observe only that many other agents, the nearest first; None: all."""
    num_landmark_neighbors: int | None = setting(None, low=1)
    """Observe only that many landmarks, the nearest first; None: all. Good agents always see the goal."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    n, seen = config.N, (config.num_agent_neighbors, config.num_landmark_neighbors)
    return common.define(
        config,
        counts={"adversary": 1, "agent": n},
        widths={
            group: simple_adversary.observation_width(n, *seen, group == "adversary")
            for group in ("adversary", "agent")
        },
        rules=simple_adversary.rules(n, config.continuous_actions, *seen, config.benchmark_data),
        params={"accel": 5.0},
        state={
            "pos": (1 + 2 * n,),
            "vel": (1 + n,),
            "goal": index((), n),
            "away": (1 + n,),
            "benchmark": (1 + n, n + 1 if config.benchmark_data else 0),
        },
        roles={"adversary": ("adversary",), "agent": ("agent",)},
        draw=draw,
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: the adversary red, good agents blue, the goal green, other landmarks dark, as in MPE."""
    from gpu_envs.rendering import BLUE, DARK, GREEN, RED

    count, goal = core.num_agents, core.world_state["goal"][envs].long()
    is_goal = torch.nn.functional.one_hot(goal, core.config.N).to(torch.float32)[..., None]
    dark, green = (torch.tensor(colour, device=core.device) for colour in (DARK, GREEN))
    landmarks = is_goal * green + (1.0 - is_goal) * dark
    return scene(
        core,
        envs,
        Discs(slice(1, count), 0.15, BLUE),
        Discs(slice(0, 1), 0.15, RED),
        Discs(slice(count, None), 0.08, landmarks, target=True),
    )
