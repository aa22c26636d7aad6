"""What the page of MountainCarContinuous-v0 says about numbers."""

from docs.claims import Reward, Table
from docs.envs.classic.mountain_car import blocks

__all__ = ["OBSERVATIONS", "REWARDS", "actions", "blocks"]

OBSERVATIONS = {"The agent": ("agent_0", {})}
REWARDS = (
    Reward("agent", "every step", "-`action_cost` action²"),
    Reward("agent", "arrival", "goal_reward"),
)


def actions() -> list[Table]:
    """The throttle."""
    table = Table("`Box(-1, 1, (1,))`", ("component", "throttle", "range"), ((0, "forward, +x", "[-1, 1]"),))
    return [table]
