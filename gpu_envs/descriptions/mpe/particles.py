"""Observation blocks and action tables shared by the MPE environments."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ANY, ObservationBlock, Table, World

__all__ = [
    "CRUISE",
    "STEER",
    "action_names",
    "action_tables",
    "nearest",
    "own_position",
    "own_velocity",
    "seen",
    "short",
    "the_goal",
    "wide",
]

# Direction of a push, by index.
STEER = ("nothing", "left, -x", "right, +x", "down, -y", "up, +y")
CRUISE = 2.0
"""Limit of the speed per axis at full throttle without a speed cap: 5 N * 0.1 s / 0.25 [m/s]."""


def action_tables() -> list[Table]:
    """Return the tables of discrete and of continuous actions of a moving agent without communication."""
    return [
        Table("`Discrete(5)`, the default: full throttle in one direction", ("index", "push"), tuple(enumerate(STEER))),
        Table(
            "`Box(0, 1, (5,))`, with `continuous_actions=True`: a throttle per direction; opposite ones are subtracted",
            ("component", "push", "range"),
            tuple((index, word if index else "nothing, ignored", "[0, 1]") for index, word in enumerate(STEER)),
        ),
    ]


def short(names: Sequence[str]) -> list[str]:
    """Return the names of actions without the axis of the push."""
    return [re.sub(r", [-+][xy]$", "", name) for name in names]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of a moving agent without communication."""
    return short(STEER)


def own_velocity(cap: float = ANY) -> ObservationBlock:
    """Return the block of the agent's own velocity, with its speed limit [m/s]."""
    return ObservationBlock(
        "own velocity (x, y)", "m/s", -cap, cap, lambda world, row: world.state["vel"][row], 2, ("x", "y")
    )


def own_position() -> ObservationBlock:
    """Return the block of the agent's own position."""
    return ObservationBlock(
        "own position (x, y)", "m", -ANY, ANY, lambda world, row: world.state["pos"][row], 2, ("x", "y")
    )


def nearest(world: World, row: int, others: Sequence[int], most: int) -> list[int]:
    """Return the nearest of the given rows, nearest first."""
    away = np.linalg.norm(world.state["pos"][list(others)] - world.state["pos"][row], axis=-1)
    return [others[index] for index in np.argsort(away, kind="stable")[:most]]


def seen(what: str, row: int, rows: Sequence[int], most: int | None, order: str = "row order") -> ObservationBlock:
    """Return the block of relative positions of some entities except the agent itself: all of them, or the nearest."""
    others = [other for other in rows if other != row]
    width = 2 * (len(others) if most is None else most)
    order = order if most is None else f"the nearest {most}, nearest first; zeros where there are fewer"

    def read(world: World, row: int) -> np.ndarray:
        shown = others if most is None else nearest(world, row, others, most)
        offsets = (world.state["pos"][shown] - world.state["pos"][row]).ravel()
        return np.pad(offsets, (0, width - len(offsets)))

    return ObservationBlock(
        f"{what} relative to the agent (x, y of each, {order})", "m", -ANY, ANY, read, width, ("x", "y")
    )


def the_goal(first: int) -> ObservationBlock:
    """Return the block of the relative position of the goal; ``first`` is the row of the first landmark."""

    def read(world: World, row: int) -> np.ndarray:
        return world.state["pos"][first + int(world.state["goal"])] - world.state["pos"][row]

    return ObservationBlock("the goal relative to the agent (x, y)", "m", -ANY, ANY, read, 2, ("x", "y"))


def wide(blocks: list[ObservationBlock]) -> list[ObservationBlock]:
    """Return the blocks that have columns."""
    return [block for block in blocks if block.width]
