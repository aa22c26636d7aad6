"""Observations, actions and rewards of MultiCartPole-v0."""

from typing import Any

from gpu_envs.descriptions.base import ANY, ObservationBlock, RewardTerm
from gpu_envs.descriptions.classic.cartpole import action_names, action_tables

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Every agent": ("agent_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("agent", "every step after which its pole and cart are within their bounds", "step_reward"),
    RewardTerm("agent", "the step that leaves the bounds", "fall_reward"),
)


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def part(index):
        return lambda world, row: world.state["motion"][row, index]

    x, angle = 2 * config.x_threshold, 2 * config.theta_threshold_radians
    return [
        ObservationBlock("position of the own cart, 0 in the middle", "m", -x, x, part(0)),
        ObservationBlock("velocity of the own cart", "m/s", -ANY, ANY, part(1)),
        ObservationBlock("angle of the own pole, 0 upright, positive to the right", "rad", -angle, angle, part(2)),
        ObservationBlock("angular velocity of the own pole", "rad/s", -ANY, ANY, part(3)),
    ]
