"""Observations, actions and rewards of Simple-v0."""

from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm
from gpu_envs.descriptions.mpe.particles import CRUISE, action_names, action_tables, own_velocity, seen

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"The agent": ("agent_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (RewardTerm("agent", "every step", "-(distance to the landmark [m])²"),)


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent."""
    return [own_velocity(CRUISE), seen("the landmark", row, [1], None)]
