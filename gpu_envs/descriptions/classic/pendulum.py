"""Observations, actions and rewards of Pendulum-v1."""

from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table

__all__ = ["OBSERVATIONS", "REWARDS", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"The agent": ("agent_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (RewardTerm("agent", "every step", "-(angle² + 0.1 velocity² + 0.001 torque²)"),)


def action_tables() -> list[Table]:
    """Return the action table."""
    table = Table("`Box(-2, 2, (1,))`", ("component", "torque [N m]", "range"), ((0, "counter-clockwise", "[-2, 2]"),))
    return [table]


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent."""
    fastest = config.max_speed
    return [
        ObservationBlock(
            "cosine of the angle: height of the free end", "`l`", -1, 1, lambda w, row: np.cos(w.state["motion"][0])
        ),
        ObservationBlock(
            "sine of the angle: horizontal offset of the free end, positive to the left",
            "`l`",
            -1,
            1,
            lambda w, row: np.sin(w.state["motion"][0]),
        ),
        ObservationBlock("angular velocity", "rad/s", -fastest, fastest, lambda w, row: w.state["motion"][1]),
    ]
