"""Observations, actions and rewards of SimpleSpeakerListener-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ANY, ObservationBlock, RewardTerm, Table, World
from gpu_envs.descriptions.mpe.particles import STEER, short

__all__ = ["LETTERS", "OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "The speaker": ("speaker_0", {}),
    "The listener": ("listener_0", {}),
}
LETTERS = 3  # size of the alphabet
# Reward terms, in the order of the documentation page.
REWARDS = (RewardTerm("speaker, listener", "every step", "-(distance of the listener from the goal)² [m²]"),)


def action_tables() -> list[Table]:
    """Return the tables of discrete and of continuous actions of both agents."""
    letters = [f"letter {letter}" for letter in range(LETTERS)]
    return [
        Table(
            "Speaker, `Discrete(3)`, the default: one letter at full loudness",
            ("index", "word"),
            tuple(enumerate(letters)),
        ),
        Table(
            "Listener, `Discrete(5)`, the default: full throttle in one direction",
            ("index", "push"),
            tuple(enumerate(STEER)),
        ),
        Table(
            "Speaker, `Box(0, 1, (3,))`, with `continuous_actions=True`: a loudness per letter",
            ("component", "word", "range"),
            tuple((index, word, "[0, 1]") for index, word in enumerate(letters)),
        ),
        Table(
            "Listener, `Box(0, 1, (5,))`, with `continuous_actions=True`: a throttle per direction; opposite ones "
            "subtract",
            ("component", "push", "range"),
            tuple((index, word if index else "nothing, ignored", "[0, 1]") for index, word in enumerate(STEER)),
        ),
    ]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return short(action_tables()[row].column(1))


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def color(world: World, row: int) -> np.ndarray:
        return 0.15 + 0.5 * np.eye(3)[world.state["goal"]]

    def velocity(world: World, row: int) -> np.ndarray:
        return world.state["vel"][row]

    def landmarks(world: World, row: int) -> np.ndarray:
        return (world.state["pos"][2:] - world.state["pos"][row]).ravel()

    def heard(world: World, row: int) -> np.ndarray:
        return world.state["said"][0]

    if row == 0:
        return [ObservationBlock("color (r, g, b) of the goal", "", 0.15, 0.65, color, 3, ("r", "g", "b"))]
    return [
        ObservationBlock("own velocity (x, y)", "m/s", -ANY, ANY, velocity, 2, ("x", "y")),
        ObservationBlock("landmarks relative to the agent (x, y of each)", "m", -ANY, ANY, landmarks, 6, ("x", "y")),
        ObservationBlock("the speaker's message in this step, one value per letter", "loudness", 0, 1, heard, LETTERS),
    ]
