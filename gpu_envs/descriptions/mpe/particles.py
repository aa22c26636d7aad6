"""What the numbers of MPE's environments mean, and the words that they share."""

import re
from collections.abc import Sequence

import numpy as np

from gpu_envs.meanings import ANY, Block, Table, World

# What a push does, by index.
STEER = ("nothing", "left, -x", "right, +x", "down, -y", "up, +y")
CRUISE = 2.0
"""Speed per axis that an agent without a cap comes near at full throttle: 5 N * 0.1 s / 0.25 [m/s]."""


def actions() -> list[Table]:
    """Both kinds of action of an agent that moves and is silent."""
    return [
        Table("`Discrete(5)`, the default: full throttle in one direction", ("index", "push"), tuple(enumerate(STEER))),
        Table(
            "`Box(0, 1, (5,))`, with `continuous_actions=True`: a throttle per direction; opposite ones subtract",
            ("component", "push", "range"),
            tuple((index, word if index else "nothing, ignored", "[0, 1]") for index, word in enumerate(STEER)),
        ),
    ]


def short(names: Sequence[str]) -> list[str]:
    """Names of actions without the axis that a push goes along."""
    return [re.sub(r", [-+][xy]$", "", name) for name in names]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of an agent that moves and is silent."""
    return short(STEER)


def own_velocity(cap: float = ANY) -> Block:
    """The agent's own velocity, up to a cap [m/s]."""
    return Block("own velocity (x, y)", "m/s", -cap, cap, lambda world, row: world.state["vel"][row], 2, ("x", "y"))


def own_position() -> Block:
    """The agent's own place."""
    return Block("own position (x, y)", "m", -ANY, ANY, lambda world, row: world.state["pos"][row], 2, ("x", "y"))


def nearest(world: World, row: int, others: Sequence[int], most: int) -> list[int]:
    """The nearest rows of some, nearest first."""
    away = np.linalg.norm(world.state["pos"][list(others)] - world.state["pos"][row], axis=-1)
    return [others[index] for index in np.argsort(away, kind="stable")[:most]]


def seen(what: str, row: int, rows: Sequence[int], most: int | None, order: str = "row order") -> Block:
    """Places of some entities, the agent itself left out, relative to it: all in order, or the nearest."""
    others = [other for other in rows if other != row]
    width = 2 * (len(others) if most is None else most)
    order = order if most is None else f"the nearest {most}, nearest first; zeros where there are fewer"

    def read(world: World, row: int) -> np.ndarray:
        shown = others if most is None else nearest(world, row, others, most)
        offsets = (world.state["pos"][shown] - world.state["pos"][row]).ravel()
        return np.pad(offsets, (0, width - len(offsets)))

    return Block(f"{what} relative to oneself (x, y of each, {order})", "m", -ANY, ANY, read, width, ("x", "y"))


def the_goal(first: int) -> Block:
    """Place of the landmark that counts, the first landmark's row given."""

    def read(world: World, row: int) -> np.ndarray:
        return world.state["pos"][first + int(world.state["goal"])] - world.state["pos"][row]

    return Block("the goal relative to oneself (x, y)", "m", -ANY, ANY, read, 2, ("x", "y"))


def wide(blocks: list[Block]) -> list[Block]:
    """Blocks without those that have no columns."""
    return [block for block in blocks if block.width]
