"""What the numbers of SimpleAdversary-v0 mean."""

from gpu_envs.meanings import Block, Reward
from gpu_envs.meanings.mpe import actions, choices, seen, the_goal

__all__ = ["OBSERVATIONS", "REWARDS", "actions", "blocks", "choices"]

# Settings in which only the nearest are seen.
FEW = {"N": 3, "num_agent_neighbors": 1, "num_landmark_neighbors": 2}
# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {
    "The adversary": ("adversary_0", {}),
    "A good agent": ("agent_0", {}),
    "A good agent with `N=3, num_agent_neighbors=1, num_landmark_neighbors=2`": ("agent_0", FEW),
}
# Causes of reward.
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
