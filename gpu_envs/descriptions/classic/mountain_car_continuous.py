"""Observations, actions and rewards of MountainCarContinuous-v0."""

from typing import Any

from gpu_envs.descriptions.base import RewardTerm, Table
from gpu_envs.descriptions.classic.mountain_car import observation_blocks

__all__ = ["OBSERVATIONS", "REWARDS", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"The agent": ("agent_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("agent", "every step", "-`action_cost` action²"),
    RewardTerm("agent", "the step that reaches the goal", "goal_reward"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    table = Table("`Box(-1, 1, (1,))`", ("component", "throttle", "range"), ((0, "forward, +x", "[-1, 1]"),))
    return [table]
