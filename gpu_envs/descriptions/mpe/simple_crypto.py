"""Observations, actions and rewards of SimpleCrypto-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table, World

__all__ = ["ALICE", "LETTERS", "OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Eve": ("eve_0", {}),
    "Bob": ("bob_0", {}),
    "Alice": ("alice_0", {}),
}
ALICE = 2  # her row
LETTERS = 4  # size of the alphabet
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("alice, bob", "every step, per unit of Eve's error", "eve_weight"),
    RewardTerm("alice, bob", "every step, per unit of Bob's error", "-bob_weight"),
    RewardTerm("eve", "every step, per unit of her error", "-eve_weight"),
)


def action_tables() -> list[Table]:
    """Return the tables of discrete and of continuous actions."""
    letters = [f"letter {letter}" for letter in range(LETTERS)]
    return [
        Table("`Discrete(4)`, the default: one letter at full loudness", ("index", "word"), tuple(enumerate(letters))),
        Table(
            "`Box(0, 1, (4,))`, with `continuous_actions=True`: a loudness per letter",
            ("component", "word", "range"),
            tuple((index, word, "[0, 1]") for index, word in enumerate(letters)),
        ),
    ]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return action_tables()[0].column(1)


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def drawn(name):
        return lambda world, row: np.eye(LETTERS)[world.state[name]]

    def heard(world: World, row: int) -> np.ndarray:
        return world.state["said"][ALICE]

    goal = ObservationBlock("goal, the letter to send, one-hot", "", 0, 1, drawn("goal"), LETTERS)
    key = ObservationBlock("key, one-hot", "", 0, 1, drawn("key"), LETTERS)
    words = ObservationBlock("Alice's message in this step, one value per letter", "loudness", 0, 1, heard, LETTERS)
    return {0: [words], 1: [key, words], 2: [goal, key]}[row]
