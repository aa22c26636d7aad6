"""Observations, actions and rewards of SimplePush-v0."""

from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, World
from gpu_envs.descriptions.mpe.particles import action_names, action_tables, own_velocity, seen, the_goal

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "The adversary": ("adversary_0", {}),
    "The good agent": ("agent_0", {}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("agent", "every step", "-(its distance to the goal [m])"),
    RewardTerm("adversary", "every step", "-(its distance to the goal [m])"),
    RewardTerm("adversary", "every step", "+(the good agent's distance to the goal [m])"),
)


def _own_color(world: World, row: int) -> np.ndarray:
    return np.where(np.arange(3) == int(world.state["goal"]) + 1, 0.75, 0.25)


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    landmarks, other = seen("landmarks", row, (2, 3), None), seen("the other agent", row, (0, 1), None)
    if row == 0:
        return [own_velocity(), landmarks, other]
    return [
        own_velocity(),
        the_goal(2),
        ObservationBlock(
            "own color (r, g, b): 0.75 in the goal's channel (green or blue), else 0.25",
            "",
            0.25,
            0.75,
            _own_color,
            3,
            ("r", "g", "b"),
        ),
        landmarks,
        ObservationBlock(
            "colors of the landmarks (r, g, b of each): green, blue",
            "",
            0.1,
            0.9,
            lambda world, row: [0.1, 0.9, 0.1, 0.1, 0.1, 0.9],
            6,
            ("r", "g", "b"),
        ),
        other,
    ]
