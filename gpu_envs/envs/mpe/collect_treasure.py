"""CollectTreasure-v0 (8 agents): Collectors carry treasures to their deposits.

The rules are in ``warp_kernels/mpe/collect_treasure.py``, the drawing in ``treasure_scene.py``.
"""

from dataclasses import dataclass

from gpu_envs.definition.environment import EnvDefinition, any_bits, integers
from gpu_envs.descriptions import ObservationBlock, flags, points
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import action_names, own_position, own_velocity
from gpu_envs.envs.mpe.treasure_scene import draw
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.mpe import collect_treasure

__all__ = ["MAX_TYPES", "Config", "action_names", "build", "draw", "observation_blocks"]

MAX_TYPES = 6
"""Largest number of deposits and types, the number of mpe2's colors."""


@dataclass(frozen=True)
class Config:
    """Settings of CollectTreasure-v0, with the names and defaults of mpe2."""

    num_collectors: int = setting(6, ge=1)
    """Number of collectors."""
    num_deposits: int = setting(2, ge=1, le=MAX_TYPES)
    """Number of deposits, each with its own type of treasure."""
    num_treasures: int = setting(6, ge=1)
    """Number of treasures."""
    max_cycles: int = setting(25, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Use Box(0, 1, (5,)) actions (nothing, left, right, down, up) instead of Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """Rendering: discs shrink when the camera zooms out; if False, they keep their size in the frame."""
    benchmark_data: bool = setting(False)
    """Add mpe2's benchmark data to `info`."""


def build(config: Config) -> EnvDefinition:
    """Build the environment definition."""
    counts = {"collector": config.num_collectors, "deposit": config.num_deposits}
    agents, treasures = sum(counts.values()), config.num_treasures
    sizes = collect_treasure.Sizes(
        num_collectors=config.num_collectors,
        num_deposits=config.num_deposits,
        num_treasures=treasures,
        continuous=config.continuous_actions,
        benchmark=config.benchmark_data,
    )
    return scenario.define(
        config,
        counts,
        widths={group: sizes.observation_width(group == "collector") for group in counts},
        rules=collect_treasure.rules(sizes),
        params={
            "collector_size": 0.05,
            "deposit_size": 0.075,
            "treasure_size": 0.025,
            "accel": 1.5,
            "deposit_mass": 2.25,
            "max_speed": 1.0,
            "respawn_prob": 1.0,
            "event_reward": 5.0,
            "collision_penalty": 5.0,
            "distance_cost": 0.1,
        },
        state={
            "pos": (agents + treasures,),
            "vel": (agents,),
            "holding": integers((config.num_collectors,), 0, config.num_deposits),
            "kind": integers((treasures,), 0, config.num_deposits),
            "key": any_bits(()),
            "events": integers((), 0, config.num_collectors + treasures),
            "benchmark": (agents, collect_treasure.BENCHMARK if config.benchmark_data else 0),
        },
        bounds={
            **dict.fromkeys(("collector_size", "deposit_size", "treasure_size", "max_speed"), scenario.NOT_NEGATIVE),
            "deposit_mass": (1e-3, 1e6),  # forces are divided by it
            "respawn_prob": (0.0, 1.0),
        },
        draw=draw,
    )


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    types = [f"type {kind}" for kind in range(config.num_deposits)]
    blocks = [own_position(), own_velocity(1.0)]
    if row < config.num_collectors:
        blocks.append(flags("1 at the type of the own treasure", types))
    for rank in range(config.num_collectors + config.num_deposits - 1):
        agent = f"other agent {rank}, nearest first"
        blocks += [
            points(f"{agent}, relative (x, y)", "m"),
            points(f"{agent}, velocity (x, y)", "m/s", 1),
            flags(f"{agent}, 1 at the type it accepts", types),
            flags(f"{agent}, 1 at the type it carries", types),
        ]
    for rank in range(config.num_treasures):
        treasure = f"treasure {rank}, nearest first; zeros: it is not there"
        blocks += [points(f"{treasure}, relative (x, y)", "m"), flags(f"{treasure}, 1 at its type", types)]
    return blocks
