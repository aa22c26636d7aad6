"""Observations, actions and rewards of MountainCar-v0."""

from collections.abc import Sequence
from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"The agent": ("agent_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (RewardTerm("agent", "every step, including the last one", "-1"),)


def action_tables() -> list[Table]:
    """Return the action table."""
    return [Table("`Discrete(3)`", ("index", "push"), ((0, "left, -x"), (1, "none"), (2, "right, +x")))]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return ("left", "none", "right")


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent."""
    return [
        ObservationBlock(
            "position", "m", config.min_position, config.max_position, lambda world, row: world.state["motion"][0]
        ),
        ObservationBlock(
            "velocity", "m/step", -config.max_speed, config.max_speed, lambda world, row: world.state["motion"][1]
        ),
    ]
