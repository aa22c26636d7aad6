"""What the numbers of MountainCarContinuous-v0 mean."""

from gpu_envs.meanings import Reward, Table
from gpu_envs.meanings.classic.mountain_car import blocks

__all__ = ["OBSERVATIONS", "REWARDS", "actions", "blocks"]

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"The agent": ("agent_0", {})}
# Causes of reward.
REWARDS = (
    Reward("agent", "every step", "-`action_cost` action²"),
    Reward("agent", "arrival", "goal_reward"),
)


def actions() -> list[Table]:
    """The throttle."""
    table = Table("`Box(-1, 1, (1,))`", ("component", "throttle", "range"), ((0, "forward, +x", "[-1, 1]"),))
    return [table]
