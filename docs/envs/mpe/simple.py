"""What the page of Simple-v0 says about numbers."""

from docs.claims import Block, Reward
from docs.envs.mpe import CRUISE, actions, own_velocity, seen

__all__ = ["OBSERVATIONS", "REWARDS", "actions", "blocks"]

OBSERVATIONS = {"The agent": ("agent_0", {})}
REWARDS = (Reward("agent", "every step", "-(distance to the landmark [m])²"),)


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent."""
    return [own_velocity(CRUISE), seen("the landmark", row, [1], None)]
