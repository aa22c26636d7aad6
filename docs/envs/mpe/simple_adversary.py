"""What the page of SimpleAdversary-v0 says about numbers."""

from docs.claims import Block, Reward
from docs.envs.mpe import actions, seen, the_goal

__all__ = ["OBSERVATIONS", "REWARDS", "actions", "blocks"]

FEW = {"N": 3, "num_agent_neighbors": 1, "num_landmark_neighbors": 2}
OBSERVATIONS = {
    "The adversary": ("adversary_0", {}),
    "A good agent": ("agent_0", {}),
    "A good agent with `N=3, num_agent_neighbors=1, num_landmark_neighbors=2`": ("agent_0", FEW),
}
REWARDS = (
    Reward("adversary", "every step", "-(its distance to the goal [m])"),
    Reward("agent", "every step, the same for all good agents", "-(distance of the nearest of them to the goal [m])"),
    Reward("agent", "every step", "+(the adversary's distance to the goal [m])"),
)


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    agents = 1 + config.N
    shared = [
        seen("landmarks", row, range(agents, agents + config.N), config.num_landmark_neighbors),
        seen("other agents", row, range(agents), config.num_agent_neighbors),
    ]
    return [the_goal(agents), *shared] if row else shared
