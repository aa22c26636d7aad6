"""Observations, actions and rewards of CartPole-v1."""

from collections.abc import Sequence
from typing import Any

from gpu_envs.descriptions.base import ANY, ObservationBlock, RewardTerm, Table

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"The agent": ("agent_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("agent", "every step after which pole and cart are within their bounds", "step_reward"),
    RewardTerm("agent", "the step that leaves the bounds", "fall_reward"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    return [Table("`Discrete(2)`", ("index", "push"), ((0, "left, -x"), (1, "right, +x")))]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return ("left", "right")


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent."""

    def part(index):
        return lambda world, row: world.state["motion"][index]

    x, angle = 2 * config.x_threshold, 2 * config.theta_threshold_radians
    return [
        ObservationBlock("position of the cart, 0 in the middle", "m", -x, x, part(0)),
        ObservationBlock("velocity of the cart", "m/s", -ANY, ANY, part(1)),
        ObservationBlock("angle of the pole, 0 upright, positive to the right", "rad", -angle, angle, part(2)),
        ObservationBlock("angular velocity of the pole", "rad/s", -ANY, ANY, part(3)),
    ]
