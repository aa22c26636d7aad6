"""Observations, actions and rewards of CollectTreasure-v0."""

from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ANY, ObservationBlock, RewardTerm, World
from gpu_envs.descriptions.mpe.particles import action_names, action_tables, nearest, own_position, own_velocity

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "A collector": ("collector_0", {}),
    "A deposit": ("deposit_0", {}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("all", "per treasure that a collector picks up or delivers", "event_reward"),
    RewardTerm("collector", "every step, per other collector that touches it", "-collision_penalty"),
    RewardTerm(
        "collector",
        "every step, with a treasure",
        "-`distance_cost` · (distance to the deposit of its type [m])",
    ),
    RewardTerm(
        "collector",
        "every step, without a treasure",
        "-`distance_cost` · (distance to the nearest treasure [m]), 0 if there is none",
    ),
    RewardTerm(
        "deposit",
        "every step, while collectors carry treasures of its type",
        "-`distance_cost` · (distance to the nearest of them [m])",
    ),
    RewardTerm(
        "deposit",
        "every step, otherwise",
        "-`distance_cost` · (distance to the mean position of all collectors [m])",
    ),
)


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    collectors, types = config.num_collectors, config.num_deposits
    count, treasures = collectors + types, config.num_treasures
    others = [other for other in range(count) if other != row]
    rows = range(count, count + treasures)

    def one_of(kind: int) -> np.ndarray:
        return (np.arange(1, types + 1) == kind).astype(float)

    def own(world: World, row: int) -> np.ndarray:
        return one_of(int(world.state["holding"][row]))

    def agent(rank: int, part: slice):
        """Return the reader of a part of the numbers about the agent of a rank."""

        def read(world: World, row: int) -> np.ndarray:
            other = nearest(world, row, others, len(others))[rank]
            collector = other < collectors
            motion = [world.state["pos"][other] - world.state["pos"][row], world.state["vel"][other]]
            accepted = 0 if collector else 1 + other - collectors
            held = int(world.state["holding"][other]) if collector else 0
            return np.concatenate([*motion, one_of(accepted), one_of(held)])[part]

        return read

    def treasure(rank: int, part: slice):
        """Return the reader of a part of the numbers about the treasure of a rank."""

        def read(world: World, row: int) -> np.ndarray:
            found = nearest(world, row, rows, treasures)[rank]
            kind = int(world.state["kind"][found - count])
            offset = world.state["pos"][found] - world.state["pos"][row] if kind else np.zeros(2)
            return np.concatenate([offset, one_of(kind)])[part]

        return read

    names = tuple(f"type {kind}" for kind in range(types))
    blocks = [own_position(), own_velocity(1.0)]
    if row < collectors:
        blocks.append(ObservationBlock("1 at the type of the own treasure", "", 0, 1, own, types, names))
    for rank in range(len(others)):
        name, end = f"other agent {rank}, nearest first", 4 + types
        blocks += [
            ObservationBlock(f"{name}, relative (x, y)", "m", -ANY, ANY, agent(rank, slice(0, 2)), 2, ("x", "y")),
            ObservationBlock(f"{name}, velocity (x, y)", "m/s", -1, 1, agent(rank, slice(2, 4)), 2, ("x", "y")),
            ObservationBlock(f"{name}, 1 at the type it accepts", "", 0, 1, agent(rank, slice(4, end)), types, names),
            ObservationBlock(
                f"{name}, 1 at the type it carries", "", 0, 1, agent(rank, slice(end, None)), types, names
            ),
        ]
    for rank in range(treasures):
        name = f"treasure {rank}, nearest first; zeros: it is not there"
        blocks += [
            ObservationBlock(f"{name}, relative (x, y)", "m", -ANY, ANY, treasure(rank, slice(0, 2)), 2, ("x", "y")),
            ObservationBlock(f"{name}, 1 at its type", "", 0, 1, treasure(rank, slice(2, None)), types, names),
        ]
    return blocks
