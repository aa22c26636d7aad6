"""SimpleTag-v0 on the host: settings, agents, spaces, and how to draw it. Rules: ``warp_kernels/mpe/simple_tag.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.config import setting
from gpu_envs.definition import Definition, box
from warp_kernels.mpe import simple_tag

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene


@dataclass(frozen=True)
class Config:
    """Settings of SimpleTag-v0, under mpe2's names and with its defaults."""

    num_good: int = setting(1, low=1)
    """Good agents (prey)."""
    num_adversaries: int = setting(3, low=1)
    """Adversaries (predators)."""
    num_obstacles: int = setting(2, low=0)
    """Obstacles."""
    max_cycles: int = setting(25, low=1)
    """Steps until the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Box(0, 1, (5,)) actions (nothing, left, right, down, up) instead of Discrete(5)."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    good, adversaries, obstacles = config.num_good, config.num_adversaries, config.num_obstacles
    names = {
        "adversary": [f"adversary_{index}" for index in range(adversaries)],
        "agent": [f"agent_{index}" for index in range(good)],
    }
    agents = tuple(names["adversary"] + names["agent"])
    widths = {
        group: simple_tag.observation_width(good, adversaries, obstacles, group == "adversary") for group in names
    }

    def action_space() -> spaces.Space:
        return spaces.Box(0.0, 1.0, (5,), np.float32) if config.continuous_actions else spaces.Discrete(5)

    return Definition(
        rules=simple_tag.rules(good, adversaries, obstacles, config.continuous_actions),
        params={
            "adversary_size": 0.075,
            "good_size": 0.05,
            "obstacle_size": 0.2,
            "adversary_accel": 3.0,
            "good_accel": 4.0,
            "adversary_max_speed": 1.0,
            "good_max_speed": 1.3,
            "tag_reward": 10.0,
        },
        state={
            "pos": (len(agents) + obstacles,),
            "vel": (len(agents),),
            "force": (len(agents),),
            "hits": (len(agents),),
        },
        agents=agents,
        groups={"adversary": tuple(range(adversaries)), "agent": tuple(range(adversaries, len(agents)))},
        observation_spaces={name: box(widths[group]) for group, members in names.items() for name in members},
        action_spaces={agent: action_space() for agent in agents},
        max_steps=config.max_cycles,
        limit_terminates=False,
        draw=draw,
        render_fps=10,
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: adversaries red, good agents green, obstacles grey, as MPE colours them."""
    from gpu_envs.rendering import GREEN, GREY, RED, Scene, circles, join

    chasers, count = core.config.num_adversaries, core.num_agents
    pos, params = core.world_state["pos"][envs], core.get_params(envs)
    obstacles = circles(pos[:, count:], params["obstacle_size"][:, None], GREY)
    adversaries = circles(pos[:, :chasers], params["adversary_size"][:, None], RED)
    good = circles(pos[:, chasers:count], params["good_size"][:, None], GREEN)
    return Scene(join(obstacles, adversaries, good), bounds=(-1.0, -1.0, 1.0, 1.0), margin=0.2)
