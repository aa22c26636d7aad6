"""Observations, actions and rewards of SwitchRiddle-v0."""

from collections.abc import Sequence
from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"A prisoner": ("agent_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("all", "the agent in the room tells, and all have been in the room", "reward_all_live"),
    RewardTerm("all", "the agent in the room tells, and not all have been in the room", "reward_all_die"),
)
# Meaning of an action, by index.
ACTIONS = ("nothing", "switch the lamp", "tell: all have been in the room")


def action_tables() -> list[Table]:
    """Return the action table."""
    words = "`Discrete(3)`; only the action of the agent in the room has an effect"
    return [Table(words, ("index", "meaning"), tuple(enumerate(ACTIONS)))]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return ["nothing", "switch", "tell"]


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    return [
        ObservationBlock(
            "1 if the agent is in the room", "", 0, 1, lambda world, row: float(world.state["room"] == row)
        ),
        ObservationBlock(
            "1 if the agent is in the room and the lamp is on",
            "",
            0,
            1,
            lambda world, row: float(world.state["room"] == row and world.state["bulb"] == 1),
        ),
    ]
