"""Observations, actions and rewards of SimpleLine-v0."""

from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm
from gpu_envs.descriptions.mpe.particles import action_names, action_tables, own_position, own_velocity, seen

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"An agent": ("agent_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm(
        "agent",
        "every step, shared by all agents",
        "-(mean over agents of the distance to the assigned target [m], at most 2)",
    ),
)


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    return [own_velocity(), own_position(), seen("landmarks", row, range(config.N, config.N + 2), None)]
