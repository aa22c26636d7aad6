"""SimpleWorldComm-v0 (6 agents): Tag with food, forests and a leader's words."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers
from gpu_envs.descriptions import ObservationBlock, points
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import (
    PUSHES,
    ParticleConfig,
    landmark_offsets,
    message_block,
    own_position,
    own_velocity,
    talk_names,
    talk_parts,
)
from gpu_envs.envs.mpe.scene import Discs, Word, scene, touched
from gpu_envs.rendering.scene import BLUE, GRAY, GREEN, RED, Scene
from gpu_envs.utils.settings import setting
from warp_kernels.mpe import simple_world_comm

LETTERS = int(simple_world_comm.LETTERS)  # size of the leader's alphabet


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of SimpleWorldComm-v0, with the names and defaults of mpe2."""

    num_good: int = setting(2, ge=1)
    """Number of good agents (prey)."""
    num_adversaries: int = setting(4, ge=1)
    """Number of adversaries (predators), including the leader."""
    num_obstacles: int = setting(1, ge=0)
    """Number of obstacles."""
    num_food: int = setting(2, ge=1)
    """Number of food items."""
    num_forests: int = setting(2, ge=0)
    """Number of forests, which hide the agents inside."""
    continuous_actions: bool = setting(False)
    """Use Box(0, 1) actions (5 pushes; leader: then 4 letters) instead of Discrete(5) (leader: Discrete(20))."""


def build(config: Config) -> EnvDefinition:
    good, adversaries = config.num_good, config.num_adversaries
    places = (config.num_obstacles, config.num_food, config.num_forests)
    count = good + adversaries
    counts = {"leadadversary": 1, "adversary": adversaries - 1, "agent": good}
    continuous, benchmark = config.continuous_actions, config.benchmark_data
    return scenario.define(
        config,
        counts,
        widths={
            group: simple_world_comm.observation_width(good, adversaries, *places, group != "agent") for group in counts
        },
        actions={
            group: scenario.action_space(continuous, letters=LETTERS * (group == "leadadversary")) for group in counts
        },
        roles={"adversary": ("leadadversary", *(["adversary"] if adversaries > 1 else [])), "agent": ("agent",)},
        rules=simple_world_comm.rules(good, adversaries, *places, continuous, benchmark),
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
        state={
            "pos": (count + sum(places),),
            "vel": (count,),
            "force": (count,),
            "hits": integers((count,), 0, max(good, adversaries)),
            "inside": (count, config.num_forests),
            "said": (1, LETTERS),
            "benchmark": (count, int(benchmark)),
        },
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Forests pale green, food blue, adversaries red, their leader dark red with its message.
    Good agents that touch an adversary have an orange ring.
    """
    config, count = core.config, core.num_agents
    hunters, prey = slice(0, config.num_adversaries), slice(config.num_adversaries, count)
    tagged = touched(core, envs, prey, hunters, ("good_size", "adversary_size"))
    food, forests = count + config.num_obstacles, count + config.num_obstacles + config.num_food
    return scene(
        core,
        envs,
        Discs(slice(count, food), "obstacle_size", GRAY),
        Discs(slice(forests, None), "forest_size", GREEN, alpha=0.25),
        Discs(slice(food, forests), "food_size", BLUE),
        Discs(prey, "good_size", GREEN, ringed=tagged),
        Discs(slice(1, config.num_adversaries), "adversary_size", RED),
        Discs(slice(0, 1), "adversary_size", (0.5, 0.08, 0.05)),
        Word(0, core.world_state["said"][envs, 0]),
    )


def action_names(config: Config, row: int) -> list[str]:
    return list(PUSHES) if row else talk_names(LETTERS)


def action_parts(config: Config, row: int) -> list[str]:
    return list(PUSHES) if row else talk_parts(LETTERS)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    is_good, visible = row >= config.num_adversaries, "; 0 if not visible" if row else ""
    peers = config.num_adversaries + config.num_good - 1
    velocities = points(
        f"velocities of the other good agents (x, y of each){visible}", "m/s", 1.3, config.num_good - is_good
    )
    cover = ObservationBlock("forests: 1 if the agent is inside, else -1", "", -1, 1, config.num_forests)
    blocks = [
        own_velocity(1.3 if is_good else 1.0),
        own_position(),
        landmark_offsets("obstacles", config.num_obstacles),
        landmark_offsets("food", config.num_food),
        landmark_offsets("forests", config.num_forests),
        points(f"other agents relative to the agent (x, y of each, row order){visible}", "m", count=peers),
    ]
    return blocks + ([cover, velocities] if is_good else [velocities, cover, message_block("the leader's", LETTERS)])
