"""What the numbers of Simple-v0 mean."""

from gpu_envs.meanings import Block, Reward
from gpu_envs.meanings.mpe import CRUISE, actions, choices, own_velocity, seen

__all__ = ["OBSERVATIONS", "REWARDS", "actions", "blocks", "choices"]

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"The agent": ("agent_0", {})}
# Causes of reward.
REWARDS = (Reward("agent", "every step", "-(distance to the landmark [m])²"),)


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent."""
    return [own_velocity(CRUISE), seen("the landmark", row, [1], None)]
