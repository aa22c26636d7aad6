"""Observations, actions and rewards of Acrobot-v1."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"The agent": ("agent_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("agent", "every step except the one that reaches the height", "-1"),
    RewardTerm("agent", "the step that reaches the height", "0"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = ((0, "-1"), (1, "0"), (2, "1"))
    return [Table("`Discrete(3)`", ("index", "torque on the lower link, counter-clockwise [N m]"), rows)]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return [f"{torque} N m" for torque in action_tables()[0].column(1)]


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent."""
    parts = []
    for index, angle in enumerate(
        ("angle of the upper link, 0 hanging down", "angle of the lower link relative to the upper")
    ):
        for name, of in (("cosine", np.cos), ("sine", np.sin)):
            read = lambda w, row, of=of, index=index: of(w.state["motion"][index])  # noqa: E731
            parts.append(ObservationBlock(f"{name} of the {angle}", "", -1, 1, read))
    for index, (link, fastest) in enumerate((("upper", config.max_vel_1), ("lower", config.max_vel_2))):
        read = lambda w, row, index=index: w.state["motion"][2 + index]  # noqa: E731
        parts.append(ObservationBlock(f"angular velocity of the {link} link", "rad/s", -fastest, fastest, read))
    return parts
