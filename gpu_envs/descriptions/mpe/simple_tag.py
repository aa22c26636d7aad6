"""Observations, actions and rewards of SimpleTag-v0."""

from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, World
from gpu_envs.descriptions.mpe.particles import (
    action_names,
    action_tables,
    nearest,
    own_position,
    own_velocity,
    seen,
    wide,
)

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Settings with partial observability.
FEW = {"num_good": 2, "num_agent_neighbors": 2, "num_landmark_neighbors": 1}
# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "An adversary": ("adversary_0", {}),
    "A good agent": ("agent_0", {}),
    "Any agent with `num_agent_neighbors=2, num_landmark_neighbors=1`": ("adversary_0", FEW),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("adversary", "every step, per touch of any adversary and any good agent", "tag_reward"),
    RewardTerm("agent", "every step, per adversary that touches it", "-tag_reward"),
    RewardTerm("agent", "every step", "-outside(x) - outside(y), see the rules"),
)


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    adversaries, count = config.num_adversaries, config.num_adversaries + config.num_good
    entities, most = count + config.num_obstacles, config.num_agent_neighbors
    good = [other for other in range(adversaries, count) if other != row]
    others = [other for other in range(count) if other != row]

    def all_velocities(world: World, row: int) -> np.ndarray:
        return world.state["vel"][good].ravel()

    def nearest_velocities(world: World, row: int) -> np.ndarray:
        shown = np.zeros((most, 2))
        for slot, other in enumerate(nearest(world, row, others, most)):
            shown[slot] = world.state["vel"][other] if other in good else 0.0
        return shown.ravel()

    if most is None:
        name, read, width = "velocities of the other good agents (x, y of each)", all_velocities, 2 * len(good)
    else:
        name, read, width = "their velocities (x, y of each; zeros for adversaries)", nearest_velocities, 2 * most
    return wide(
        [
            own_velocity(1.0 if row < adversaries else 1.3),
            own_position(),
            seen("obstacles", row, range(count, entities), config.num_landmark_neighbors),
            seen("other agents", row, range(count), most),
            ObservationBlock(name, "m/s", -1.3, 1.3, read, width, ("x", "y")),
        ]
    )
