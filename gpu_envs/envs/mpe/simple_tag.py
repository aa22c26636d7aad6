"""SimpleTag-v0 on the host: settings, agents, spaces, and how to draw it. Rules: ``warp_kernels/mpe/simple_tag.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition, integers
from gpu_envs.mpe import common
from gpu_envs.mpe.camera import Discs, scene, touched
from warp_kernels.mpe import particles, simple_tag

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
    max_cycles: int = setting(25, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Box(0, 1, (5,)) actions (nothing, left, right, down, up) instead of Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """In pictures, discs shrink as the camera backs away; else they keep their size."""
    benchmark_data: bool = setting(False)
    """Tell mpe2's benchmark figures in `info`."""
    curriculum: bool = setting(False)
    """Start in stage 0 of 0 to 2, where good agents are slow; `core.set_params(curriculum_stage=1)` goes on."""
    terminate_on_success: bool = setting(False)
    """End the episode once every good agent is touched."""
    num_agent_neighbors: int | None = setting(None, low=1)
    """Observe only that many other agents, the nearest first; None: all."""
    num_landmark_neighbors: int | None = setting(None, low=1)
    """Observe only that many obstacles, the nearest first; None: all."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    counts = {"adversary": config.num_adversaries, "agent": config.num_good}
    agents = sum(counts.values())
    sizes = simple_tag.Sizes(
        num_good=config.num_good,
        num_adversaries=config.num_adversaries,
        num_obstacles=config.num_obstacles,
        continuous=config.continuous_actions,
        agents_seen=config.num_agent_neighbors,
        landmarks_seen=config.num_landmark_neighbors,
        benchmark=config.benchmark_data,
    )
    return common.define(
        config,
        counts,
        widths={group: sizes.observation_width(group == "adversary") for group in counts},
        rules=simple_tag.rules(sizes),
        params={
            "adversary_size": 0.075,
            "good_size": 0.05,
            "obstacle_size": 0.2,
            "adversary_accel": 3.0,
            "good_accel": 4.0,
            "adversary_max_speed": 1.0,
            "good_max_speed": 1.3,
            "tag_reward": 10.0,
            "terminate_on_success": int(config.terminate_on_success),
            "curriculum": int(config.curriculum),
            "curriculum_stage": 0,
        },
        dense=particles.DENSE,
        state={
            "pos": (agents + config.num_obstacles,),
            "vel": (agents,),
            "force": (agents,),
            "hits": integers((agents,), 0, config.num_adversaries),
            "pace": (),
            "benchmark": (agents, int(config.benchmark_data)),
        },
        roles={"adversary": ("adversary",), "agent": ("agent",)},
        draw=draw,
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: adversaries red, good agents green, obstacles grey, nearly as MPE colours them.

    Who is tagged, that is in touch with an adversary, has an orange ring.
    """
    from gpu_envs.rendering import GREEN, GREY, RED

    chasers, count = core.config.num_adversaries, core.num_agents
    hunters, prey = slice(0, chasers), slice(chasers, count)
    tagged = touched(core, envs, prey, hunters, ("good_size", "adversary_size"))
    return scene(
        core,
        envs,
        Discs(slice(count, None), "obstacle_size", GREY),
        Discs(hunters, "adversary_size", RED),
        Discs(prey, "good_size", GREEN, ringed=tagged),
    )
