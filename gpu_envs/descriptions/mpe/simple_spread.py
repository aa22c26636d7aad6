"""Observations, actions and rewards of SimpleSpread-v0."""

from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm
from gpu_envs.descriptions.mpe.particles import action_names, action_tables, own_position, own_velocity, seen, wide

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Settings with partial observability.
FEW = {"num_agent_neighbors": 1, "num_landmark_neighbors": 2}
# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "An agent": ("agent_0", {"num_landmark_neighbors": None}),
    "An agent with `num_agent_neighbors=1, num_landmark_neighbors=2`": ("agent_0", FEW),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm(
        "agent",
        "every step, shared by all agents",
        "-(1 - `local_ratio`) · (sum over landmarks of the distance to the nearest agent [m])",
    ),
    RewardTerm("agent", "every step, per other agent that touches it", "-`local_ratio` · `collision_penalty`"),
)


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    n = config.N
    others = n - 1 if config.num_agent_neighbors is None else config.num_agent_neighbors
    return wide(
        [
            own_velocity(),
            own_position(),
            seen("landmarks", row, range(n, 2 * n), config.num_landmark_neighbors),
            seen("other agents", row, range(n), config.num_agent_neighbors),
            ObservationBlock("messages of those agents: always 0", "", 0.0, 0.0, lambda world, row: 0.0, 2 * others),
        ]
    )
