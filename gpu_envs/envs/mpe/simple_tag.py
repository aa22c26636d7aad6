"""SimpleTag-v0 (4 agents): Slow adversaries chase fast agents.

The rules are in ``warp_kernels/mpe/simple_tag.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.definition.environment import EnvDefinition, integers
from gpu_envs.descriptions import ObservationBlock, points
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import action_names, offsets, own_position, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene, touched
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.mpe import simple_tag

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.scene import Scene

__all__ = ["Config", "action_names", "build", "draw", "observation_blocks"]


@dataclass(frozen=True)
class Config:
    """Settings of SimpleTag-v0, with the names and defaults of mpe2."""

    num_good: int = setting(1, ge=1)
    """Number of good agents (prey)."""
    num_adversaries: int = setting(3, ge=1)
    """Number of adversaries (predators)."""
    num_obstacles: int = setting(2, ge=0)
    """Number of obstacles."""
    max_cycles: int = setting(25, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Use Box(0, 1, (5,)) actions (nothing, left, right, down, up) instead of Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """Rendering: discs shrink when the camera zooms out; if False, they keep their size in the frame."""
    benchmark_data: bool = setting(False)
    """Add mpe2's benchmark data to `info`."""
    curriculum: bool = setting(False)
    """Start in stage 0 of 0 to 2 with slow good agents; `core.set_params(curriculum_stage=1)` sets the next stage."""
    terminate_on_success: bool = setting(False)
    """Terminate the episode when every good agent is touched."""
    num_agent_neighbors: int | None = setting(None, ge=1)
    """Number of nearest other agents in the observation, nearest first; None observes all."""
    num_landmark_neighbors: int | None = setting(None, ge=1)
    """Number of nearest obstacles in the observation, nearest first; None observes all."""


def build(config: Config) -> EnvDefinition:
    """Build the environment definition."""
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
    return scenario.define(
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


def draw(core: "WorldView", envs: torch.Tensor) -> "Scene":
    """Return the scene of these worlds: adversaries red, good agents green, obstacles gray, similar to MPE.

    Good agents that touch an adversary have an orange ring.
    """
    from gpu_envs.rendering.scene import GRAY, GREEN, RED

    chasers, count = core.config.num_adversaries, core.num_agents
    hunters, prey = slice(0, chasers), slice(chasers, count)
    tagged = touched(core, envs, prey, hunters, ("good_size", "adversary_size"))
    return scene(
        core,
        envs,
        Discs(slice(count, None), "obstacle_size", GRAY),
        Discs(hunters, "adversary_size", RED),
        Discs(prey, "good_size", GREEN, ringed=tagged),
    )


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    is_good, nearest = row >= config.num_adversaries, config.num_agent_neighbors
    if nearest is None:
        velocities = points("velocities of the other good agents (x, y of each)", "m/s", 1.3, config.num_good - is_good)
    else:
        velocities = points("their velocities (x, y of each; zeros for adversaries)", "m/s", 1.3, nearest)
    return [
        own_velocity(1.3 if is_good else 1.0),
        own_position(),
        offsets("obstacles", config.num_obstacles, config.num_landmark_neighbors),
        offsets("other agents", config.num_adversaries + config.num_good - 1, nearest),
        velocities,
    ]
