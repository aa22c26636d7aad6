"""Observations, actions and rewards of SimpleAdversary-v0."""

from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm
from gpu_envs.descriptions.mpe.particles import action_names, action_tables, seen, the_goal

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Settings with partial observability.
FEW = {"N": 3, "num_agent_neighbors": 1, "num_landmark_neighbors": 2}
# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "The adversary": ("adversary_0", {}),
    "A good agent": ("agent_0", {}),
    "A good agent with `N=3, num_agent_neighbors=1, num_landmark_neighbors=2`": ("agent_0", FEW),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("adversary", "every step", "-(its distance to the goal [m])"),
    RewardTerm(
        "agent", "every step, shared by all good agents", "-(distance of the nearest good agent to the goal [m])"
    ),
    RewardTerm("agent", "every step", "+(the adversary's distance to the goal [m])"),
)


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    agents = 1 + config.N
    shared = [
        seen("landmarks", row, range(agents, agents + config.N), config.num_landmark_neighbors),
        seen("other agents", row, range(agents), config.num_agent_neighbors),
    ]
    return [the_goal(agents), *shared] if row else shared
