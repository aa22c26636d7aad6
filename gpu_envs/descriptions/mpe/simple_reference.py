"""Observations, actions and rewards of SimpleReference-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ANY, ObservationBlock, RewardTerm, Table, World
from gpu_envs.descriptions.mpe.particles import STEER, short

__all__ = ["LETTERS", "OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Both agents": ("agent_0", {})}
LETTERS = 10  # size of the alphabet
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("agent", "every step", "-`local_ratio` × d(own row)"),
    RewardTerm("agent", "every step", "-(1 - `local_ratio`) × (d(agent_0) + d(agent_1)) / 2"),
)


def action_tables() -> list[Table]:
    """Return the tables of discrete and of continuous actions."""
    both = [f"letter {letter}, {push}" for letter in range(LETTERS) for push in STEER]
    apart = [*STEER, *(f"letter {letter}" for letter in range(LETTERS))]
    return [
        Table(
            "`Discrete(50)`, the default: letter × 5 + push, full throttle and full loudness",
            ("index", "word and push"),
            tuple(enumerate(both)),
        ),
        Table(
            "`Box(0, 1, (15,))`, with `continuous_actions=True`: throttles, of which opposite ones are subtracted, "
            "then a loudness per letter",
            ("component", "push or word", "range"),
            tuple((index, word if index else "nothing, ignored", "[0, 1]") for index, word in enumerate(apart)),
        ),
    ]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return short(action_tables()[0].column(1))


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def velocity(world: World, row: int) -> np.ndarray:
        return world.state["vel"][row]

    def landmarks(world: World, row: int) -> np.ndarray:
        return (world.state["pos"][2:] - world.state["pos"][row]).ravel()

    def color(world: World, row: int) -> np.ndarray:
        return 0.25 + 0.5 * np.eye(3)[world.state["goal"][row]]

    def heard(world: World, row: int) -> np.ndarray:
        return world.state["said"][1 - row]

    return [
        ObservationBlock("own velocity (x, y)", "m/s", -ANY, ANY, velocity, 2, ("x", "y")),
        ObservationBlock("landmarks relative to the agent (x, y of each)", "m", -ANY, ANY, landmarks, 6, ("x", "y")),
        ObservationBlock(
            "color (r, g, b) of the other agent's goal landmark", "", 0.25, 0.75, color, 3, ("r", "g", "b")
        ),
        ObservationBlock(
            "the other agent's message in this step, one value per letter", "loudness", 0, 1, heard, LETTERS
        ),
    ]
