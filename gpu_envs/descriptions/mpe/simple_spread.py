"""What the numbers of SimpleSpread-v0 mean."""

from gpu_envs.meanings import Block, Reward
from gpu_envs.meanings.mpe import actions, choices, own_position, own_velocity, seen, wide

__all__ = ["OBSERVATIONS", "REWARDS", "actions", "blocks", "choices"]

# Settings in which only the nearest are seen.
FEW = {"num_agent_neighbors": 1, "num_landmark_neighbors": 2}
# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {
    "An agent": ("agent_0", {"num_landmark_neighbors": None}),
    "An agent with `num_agent_neighbors=1, num_landmark_neighbors=2`": ("agent_0", FEW),
}
# Causes of reward.
REWARDS = (
    Reward(
        "agent",
        "every step, the same for all",
        "-(1 - `local_ratio`) · (sum over landmarks of the distance to the nearest agent [m])",
    ),
    Reward("agent", "every step, per other agent in touch with it", "-`local_ratio` · `collision_penalty`"),
)


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    n = config.N
    others = n - 1 if config.num_agent_neighbors is None else config.num_agent_neighbors
    return wide(
        [
            own_velocity(),
            own_position(),
            seen("landmarks", row, range(n, 2 * n), config.num_landmark_neighbors),
            seen("other agents", row, range(n), config.num_agent_neighbors),
            Block("what those agents say: they are silent", "", 0.0, 0.0, lambda world, row: 0.0, 2 * others),
        ]
    )
