"""SimpleWorldComm-v0 on the host: settings, spaces, drawing. Rules: ``warp_kernels/mpe/simple_world_comm.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition, integers, roster
from gpu_envs.mpe import common
from gpu_envs.mpe.camera import Discs, Word, scene, touched
from warp_kernels.mpe import particles, simple_world_comm

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene

LETTERS = int(simple_world_comm.LETTERS)  # of the leader's alphabet


@dataclass(frozen=True)
class Config:
    """Settings of SimpleWorldComm-v0, under mpe2's names and with its defaults."""

    num_good: int = setting(2, low=1)
    """Good agents (prey)."""
    num_adversaries: int = setting(4, low=1)
    """Adversaries (predators), the leader among them."""
    num_obstacles: int = setting(1, low=0)
    """Obstacles."""
    num_food: int = setting(2, low=1)
    """Places with food."""
    max_cycles: int = setting(25, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""
    num_forests: int = setting(2, low=0)
    """Forests, which hide who is in them."""
    continuous_actions: bool = setting(False)
    """Box(0, 1) actions (5 pushes, for the leader then 4 letters) instead of Discrete(5), the leader's Discrete(20)."""
    dynamic_rescaling: bool = setting(True)
    """In pictures, discs shrink as the camera backs away; else they keep their size."""
    benchmark_data: bool = setting(False)
    """Tell mpe2's benchmark figures in `info`."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    good, adversaries = config.num_good, config.num_adversaries
    places = (config.num_obstacles, config.num_food, config.num_forests)
    count = good + adversaries
    counts = {"leadadversary": 1, "adversary": adversaries - 1, "agent": good}
    continuous, told = config.continuous_actions, config.benchmark_data
    return Definition(
        **roster(
            counts,
            {
                group: simple_world_comm.observation_width(good, adversaries, *places, group != "agent")
                for group in counts
            },
            {group: common.action_space(continuous, letters=LETTERS * (group == "leadadversary")) for group in counts},
        ),
        rules=simple_world_comm.rules(good, adversaries, *places, continuous, told),
        params={
            "adversary_size": 0.075,
            "good_size": 0.045,
            "obstacle_size": 0.2,
            "food_size": 0.03,
            "forest_size": 0.3,
            "adversary_accel": 3.0,
            "good_accel": 4.0,
            "adversary_max_speed": 1.0,
            "good_max_speed": 1.3,
            "tag_reward": 5.0,
            "food_reward": 2.0,
            "leave_cost": 2.0,
            "hunger_cost": 0.05,
            "chase_cost": 0.1,
        },
        dense=particles.DENSE,
        state={
            "pos": (count + sum(places),),
            "vel": (count,),
            "force": (count,),
            "hits": integers((count,), 0, max(good, adversaries)),
            "inside": (count, config.num_forests),
            "said": (1, LETTERS),
            "benchmark": (count, int(told)),
        },
        max_steps=config.max_cycles,
        limit_terminates=False,
        draw=draw,
        info={"benchmark_data": "benchmark"} if told else {},
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: forests pale green, food blue, adversaries red, their leader dark red with its word.

    Who is tagged, that is in touch with an adversary, has an orange ring.
    """
    from gpu_envs.rendering import BLUE, GREEN, GREY, RED

    config, count = core.config, core.num_agents
    hunters, prey = slice(0, config.num_adversaries), slice(config.num_adversaries, count)
    tagged = touched(core, envs, prey, hunters, ("good_size", "adversary_size"))
    food, forests = count + config.num_obstacles, count + config.num_obstacles + config.num_food
    return scene(
        core,
        envs,
        Discs(slice(count, food), "obstacle_size", GREY),
        Discs(slice(forests, None), "forest_size", GREEN, alpha=0.25),
        Discs(slice(food, forests), "food_size", BLUE),
        Discs(prey, "good_size", GREEN, ringed=tagged),
        Discs(slice(1, config.num_adversaries), "adversary_size", RED),
        Discs(slice(0, 1), "adversary_size", (0.5, 0.08, 0.05)),
        Word(0, core.world_state["said"][envs, 0]),
    )
