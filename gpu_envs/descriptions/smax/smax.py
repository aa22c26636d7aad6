"""Observations, actions and rewards of SMAX-v0."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ANY, ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.smax.smax import STATS, Config
from warp_kernels.smax.observations import NUM_SECTIONS, OTHER, UNITS_PER_SECTION
from warp_kernels.smax.units import NUM_MOVES

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_parts", "action_tables", "observation_blocks"]

_MOVES = ("north", "east", "south", "west", "stop")
_SIDE = {"num_allies": 2, "num_enemies": 3}
# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "An ally with `num_allies=2, num_enemies=3`": ("ally_0", _SIDE),
    'With `observation_type="conic"`': ("ally_0", {**_SIDE, "observation_type": "conic"}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm(
        "a side, without `use_self_play_reward`",
        "every step",
        "mean over units of the other side of the lost health as a share of their type's health",
    ),
    RewardTerm("a side", "all units of the other side are dead, and one of its units lives", "won_battle_bonus"),
    RewardTerm(
        "a side, with `use_self_play_reward`",
        "all of its units are dead, and one of the other side lives",
        "-won_battle_bonus",
    ),
)


def action_tables() -> list[Table]:
    """Return the action tables."""
    meanings = (
        "north: move up, +y",
        "east: move to the right, +x",
        "south: move down, -y",
        "west: move to the left, -x",
        "stop: stay",
    )
    attacks = ((NUM_MOVES, "attack the first unit of the other side"), ("5 + i", "attack unit i of the other side"))
    parts = (
        ("0", "0 to 1", "probability that an attack is aimed at the coordinates; otherwise it repeats the last attack"),
        ("1", "0 to 1", "probability to move instead of an attack"),
        ("2", "0 to 1", "radius of the coordinates: share of the velocity, or distance of the target point"),
        ("3", "0 to 1", "angle of the coordinates, as a share of a full turn from the right, counterclockwise"),
    )
    return [
        Table('`Discrete(5 + n)`, `action_type="discrete"`', ("index", "meaning"), (*enumerate(meanings), *attacks)),
        Table('`Box(0, 1, (4,))`, `action_type="continuous"`', ("component", "range", "meaning"), parts),
    ]


def action_parts(config: Config, row: int) -> Sequence[str]:
    """Return the names of the components of a continuous action."""
    return ["shoot_last_enemy", "do_shoot", "coordinate_1", "coordinate_2"]


def action_names(config: Config, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    side, other = _sides(config)
    if row < side:
        return [*_MOVES, *(f"attack enemy_{unit}" for unit in range(other))]
    return [*_MOVES, *(f"attack ally_{side - 1 - unit}" for unit in range(side))]


def _sides(config: Config) -> tuple[int, int]:
    return len(config.units.allies), len(config.units.enemies)


def _types(config: Config, kind: int) -> list[float]:
    return [float(kind == each) for each in range(len(config.unit_type_names))]


def _stat(config: Config, world: World, unit: int, name: str) -> float:
    return float(config.stats[int(world.state["kind"][unit]), STATS.index(name)])


def _waiting(config: Config, world: World, unit: int) -> float:
    share = float(world.state["cooldown"][unit]) / _stat(config, world, unit, "weapon_cooldowns")
    return min(max(share, 0.0), 1.0)


def _seen(config: Config, world: World, row: int, other: int) -> tuple[np.ndarray, float, list[float]]:
    """Return the relative position of a unit, its distance, both as shares of the sight range, and its numbers."""
    state, (allies, enemies) = world.state, _sides(config)
    gap = (state["pos"][other] - state["pos"][row]) / _stat(config, world, row, "sight_ranges")
    shown = config.see_enemy_actions or (row < allies) == (other < allies)
    last = NUM_MOVES - 1 + (enemies if other < allies else allies)
    acts = [*state["move"][other], state["attack"][other] / last] if shown else [0.0] * 3
    share = state["health"][other] / _stat(config, world, other, "health")
    kinds = _types(config, int(state["kind"][other]))
    return gap, float(np.hypot(*gap)), [share, *gap, *acts, _waiting(config, world, other), *kinds]


def _own(config: Config, world: World, row: int) -> list[float]:
    """Return health, position, cooldown and type of the own unit, zeros for a dead one."""
    if world.state["health"][row] <= 0.0:
        return [0.0] * (4 + len(config.unit_type_names))
    x, y = world.state["pos"][row]
    share = world.state["health"][row] / _stat(config, world, row, "health")
    place = [x / world.params["map_width"], y / world.params["map_height"]]
    return [share, *place, _waiting(config, world, row), *_types(config, int(world.state["kind"][row]))]


def _in_sections(config: Config, world: World, row: int) -> np.ndarray:
    """Return the units in the sections of the circle around a unit, flat."""
    found = np.zeros((NUM_SECTIONS, UNITS_PER_SECTION, OTHER + len(config.unit_type_names)))
    count = [0] * NUM_SECTIONS
    if world.state["health"][row] > 0.0:
        for other in range(1, sum(_sides(config))):
            gap, dist, numbers = _seen(config, world, row, other)
            section = math.floor((math.atan2(gap[1], gap[0]) + math.pi) / math.tau * NUM_SECTIONS) % NUM_SECTIONS
            if other != row and dist < 1.0 and count[section] < UNITS_PER_SECTION:
                found[section, count[section]] = numbers
                count[section] += 1
    return found.ravel()


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    allies, enemies = _sides(config)
    types = len(config.unit_type_names)
    kinds = tuple(f"is a {name}" for name in config.unit_type_names)
    parts = ("health", "x", "y", "movement x", "movement y", "attack", "cooldown", *kinds)
    order = [other for other in range(allies + enemies) if other != row]

    def unit(other: int) -> Callable[[World, int], list[float]]:
        def read(world: World, row: int) -> list[float]:
            _, dist, numbers = _seen(config, world, row, other)
            both = world.state["health"][row] > 0.0 and world.state["health"][other] > 0.0
            return numbers if both and dist < 1.0 else [0.0] * len(numbers)

        return read

    if config.observation_type == "conic":
        meaning = "two units in each of 32 sections of the circle, counterclockwise from the left"
        width = NUM_SECTIONS * UNITS_PER_SECTION * len(parts)
        read = lambda world, row: _in_sections(config, world, row)  # noqa: E731
        blocks = [ObservationBlock(meaning, "shares", -1, 1, read, width, parts)]
    else:
        named = {other: f"ally_{other}" if other < allies else f"enemy_{other - allies}" for other in order}
        ordered = order if row < allies else order[::-1]
        blocks = [
            ObservationBlock(f"{named[other]}, if it is in sight", "shares", -1, 1, unit(other), len(parts), parts)
            for other in ordered
        ]

    def own(part: slice) -> Callable[[World, int], list[float]]:
        return lambda world, row: _own(config, world, row)[part]

    return [
        *blocks,
        ObservationBlock("own health", "share", 0, 1, own(slice(0, 1))),
        ObservationBlock("own position (x, y)", "shares of the map", -ANY, ANY, own(slice(1, 3)), 2, ("x", "y")),
        ObservationBlock("own cooldown", "share", 0, 1, own(slice(3, 4))),
        ObservationBlock("own unit type", "", 0, 1, own(slice(4, None)), types, kinds),
    ]
