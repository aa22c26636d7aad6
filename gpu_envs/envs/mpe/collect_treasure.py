"""CollectTreasure-v0 (8 agents): Collectors carry treasures to their deposits."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, integers
from gpu_envs.descriptions import Entities, ObservationBlock, flags, points
from gpu_envs.envs.games.scene import PAPER
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import ParticleConfig, own_position, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.rendering.scene import BLUE, DARK, GREEN, ORANGE, PURPLE, RED, Color, Pen, Scene
from gpu_envs.utils.settings import setting
from warp_kernels.mpe import collect_treasure

action_names = scenario.action_names


MAX_TYPES = 6
"""Largest number of deposits and types, the number of mpe2's colors."""


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of CollectTreasure-v0, with the names and defaults of mpe2."""

    num_collectors: int = setting(6, ge=1)
    """Number of collectors."""
    num_deposits: int = setting(2, ge=1, le=MAX_TYPES)
    """Number of deposits, each with its own type of treasure."""
    num_treasures: int = setting(6, ge=1)
    """Number of treasures."""


def build(config: Config) -> EnvDefinition:
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
    types = [f"type {kind}" for kind in range(config.num_deposits)]
    blocks = [own_position(), own_velocity(1.0)]
    if row < config.num_collectors:
        blocks.append(flags("1 at the type of the own treasure", types))
    peers = Entities("other agents", config.num_collectors + config.num_deposits - 1)
    treasures = Entities("treasures", config.num_treasures)
    for rank in range(peers.count):
        agent = f"other agent {rank}, nearest first"
        blocks += [
            points(f"{agent}, relative (x, y)", "m", entities=peers),
            points(f"{agent}, velocity (x, y)", "m/s", 1, entities=peers),
            flags(f"{agent}, 1 at the type it accepts", types, peers),
            flags(f"{agent}, 1 at the type it carries", types, peers),
        ]
    for rank in range(treasures.count):
        treasure = f"treasure {rank}, nearest first; zeros: it is not there"
        blocks += [
            points(f"{treasure}, relative (x, y)", "m", entities=treasures),
            flags(f"{treasure}, 1 at its type", types, treasures),
        ]
    return blocks


_KINDS = (BLUE, ORANGE, GREEN, RED, PURPLE, (0.55, 0.34, 0.29))
_SHIRT, _SLEEVE = (0.78, 0.80, 0.83), (0.40, 0.43, 0.48)
_SKIN, _HAT, _HAT_EDGE = (0.96, 0.80, 0.62), (0.62, 0.44, 0.28), (0.42, 0.28, 0.16)
_GOLD, _IRON = (0.98, 0.80, 0.30), (0.26, 0.28, 0.32)
_COLLECTOR, _DEPOSIT, _TREASURE = 2.4, 2.0, 2.4
"""Drawn sizes [radii]: figures are larger than the discs that touch, which would be too small to tell apart."""
_GEM = 0.5
"""Size of a gem that is carried, in units of the collector."""
_SHAPE = (((-0.52, 0.3), (0.52, 0.3)), ((-0.52, 0.3), (0.0, -0.5)), ((0.52, 0.3), (0.0, -0.5)))
"""Sides of a gem."""


def _gem(pen: Pen, color: Color) -> list[torch.Tensor]:
    color = torch.as_tensor(color, device=pen.centers.device)
    edge, light = 0.5 * color, 0.45 * color + 0.55
    return [
        *[pen.line(start, end, 0.9, edge) for start, end in _SHAPE],
        *[pen.line(start, end, 0.58, color) for start, end in _SHAPE],
        pen.line((-0.34, 0.36), (0.3, 0.36), 0.2, light),
        pen.line((-0.34, 0.3), (-0.06, -0.28), 0.16, light),
    ]


def _chest(pen: Pen, color: Color) -> list[torch.Tensor]:
    color = torch.as_tensor(color, device=pen.centers.device)
    dark = 0.45 * color
    return [
        *[pen.disc(right, -0.62, 0.24, _IRON) for right in (-0.55, 0.55)],
        *[pen.disc(right, -0.62, 0.09, PAPER) for right in (-0.55, 0.55)],
        pen.line((-0.6, 0.5), (0.6, 0.5), 0.8, dark),
        pen.box(0.0, 0.0, (0.98, 0.56), dark),
        pen.box(0.0, 0.0, (0.9, 0.48), color),
        pen.line((-0.6, 0.52), (0.6, 0.52), 0.64, color),
        pen.box(0.0, 0.36, (0.98, 0.07), dark),
        pen.box(0.0, 0.36, (0.17, 0.16), _GOLD),
        pen.disc(0.0, 0.36, 0.07, DARK),
    ]


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: gems, chests on wheels and people.

    Treasures are gems in the color of their type. Deposits are chests on wheels in the color of the type that they
    accept. Collectors are people with hats; one that carries a treasure holds the gem above the head, and has a shirt
    in its color.
    """
    config, count, state = core.config, core.num_agents, core.world_state
    kinds = torch.tensor([_SHIRT, *_KINDS], device=core.device)
    kind, holding = state["kind"][envs].long(), state["holding"][envs].long()

    def person(pen: Pen, color: Color) -> list[torch.Tensor]:
        full, empty = (Pen(pen.centers, carries, pen.scale) for carries in (holding > 0, holding == 0))
        gem = Pen(pen.at(0.0, 1.02), holding > 0, _GEM * pen.scale)
        return [
            *[pen.line((sign * 0.15, -0.3), (sign * 0.17, -0.56), 0.2, _IRON) for sign in (-1.0, 1.0)],
            *[full.line((sign * 0.28, 0.18), (sign * 0.5, 0.74), 0.17, _SLEEVE) for sign in (-1.0, 1.0)],
            *[empty.line((sign * 0.28, 0.16), (sign * 0.44, -0.22), 0.17, _SLEEVE) for sign in (-1.0, 1.0)],
            pen.box(0.0, 0.0, (0.34, 0.36), _SLEEVE),
            pen.box(0.0, 0.0, (0.27, 0.29), color),
            pen.disc(0.0, 0.44, 0.3, _HAT_EDGE),
            pen.disc(0.0, 0.44, 0.26, _SKIN),
            *[pen.disc(right, 0.4, 0.055, DARK) for right in (-0.1, 0.1)],
            pen.line((-0.18, 0.66), (0.18, 0.66), 0.24, _HAT),
            pen.line((-0.38, 0.56), (0.38, 0.56), 0.12, _HAT_EDGE),
            *_gem(gem, color),
            *[full.disc(sign * 0.5, 0.8, 0.1, _SKIN) for sign in (-1.0, 1.0)],
        ]

    collectors, deposits = slice(0, config.num_collectors), slice(config.num_collectors, count)
    return scene(
        core,
        envs,
        Discs(deposits, "deposit_size", kinds[1 : 1 + config.num_deposits], figure=_chest, enlarged=_DEPOSIT),
        Discs(slice(count, None), "treasure_size", kinds[kind], visible=kind > 0, figure=_gem, enlarged=_TREASURE),
        Discs(collectors, "collector_size", kinds[holding], figure=person, enlarged=_COLLECTOR),
    )
