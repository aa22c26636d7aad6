"""SimpleTag-v0 (4 agents): Slow adversaries chase fast agents."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, params_of
from gpu_envs.descriptions import ObservationBlock, points
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import ParticleConfig, offsets, own_position, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene, touched
from gpu_envs.rendering.scene import GRAY, GREEN, RED, Scene
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.mpe import simple_tag

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of SimpleTag-v0, with the names and defaults of mpe2."""

    num_good: int = setting(1, ge=1)
    """Number of good agents (prey)."""
    num_adversaries: int = setting(3, ge=1)
    """Number of adversaries (predators)."""
    num_obstacles: int = setting(2, ge=0)
    """Number of obstacles."""
    curriculum: bool = setting(False)
    """Start in stage 0 of 0 to 2 with slow good agents; `core.set_params(curriculum_stage=1)` sets the next stage."""
    terminate_on_success: bool = setting(False)
    """Terminate the episode when every good agent is touched."""
    num_agent_neighbors: int | None = setting(None, ge=1)
    """Number of nearest other agents in the observation, nearest first; None observes all."""
    num_landmark_neighbors: int | None = setting(None, ge=1)
    """Number of nearest obstacles in the observation, nearest first; None observes all."""


def build(config: Config) -> EnvDefinition:
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
        params=params_of(
            config,
            simple_tag.Params,
            adversary_size=0.075,
            good_size=0.05,
            obstacle_size=0.2,
            adversary_accel=3.0,
            good_accel=4.0,
            adversary_max_speed=1.0,
            good_max_speed=1.3,
            tag_reward=10.0,
            curriculum_stage=0,
        ),
        state={
            "pos": (agents + config.num_obstacles,),
            "vel": (agents,),
            "force": (agents,),
            "hits": integers((agents,), 0, config.num_adversaries),
            "touches": integers((agents,), 0, MAX_INT),
            "pace": (),
            "benchmark": (agents, int(config.benchmark_data)),
        },
        results=("touches",),
        roles={"adversary": ("adversary",), "agent": ("agent",)},
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: adversaries red, good agents green, obstacles gray, similar to MPE.

    Good agents that touch an adversary have an orange ring.
    """
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
