"""What the numbers of SimpleCrypto-v0 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.meanings import Block, Reward, Table, World

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"Eve": ("eve_0", {}), "Bob": ("bob_0", {}), "Alice": ("alice_0", {})}
ALICE = 2  # her row
LETTERS = 4  # that there are
# Causes of reward.
REWARDS = (
    Reward("alice, bob", "every step, per unit of Eve's error", "eve_weight"),
    Reward("alice, bob", "every step, per unit of Bob's error", "-bob_weight"),
    Reward("eve", "every step, per unit of her error", "-eve_weight"),
)


def actions() -> list[Table]:
    """Both kinds of action."""
    letters = [f"letter {letter}" for letter in range(LETTERS)]
    return [
        Table("`Discrete(4)`, the default: one letter at full loudness", ("index", "word"), tuple(enumerate(letters))),
        Table(
            "`Box(0, 1, (4,))`, with `continuous_actions=True`: a loudness per letter",
            ("component", "word", "range"),
            tuple((index, word, "[0, 1]") for index, word in enumerate(letters)),
        ),
    ]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return actions()[0].column(1)


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent in a row."""

    def drawn(name):
        return lambda world, row: np.eye(LETTERS)[world.state[name]]

    def heard(world: World, row: int) -> np.ndarray:
        return world.state["said"][ALICE]

    goal = Block("goal, the letter to tell (1 in its place)", "", 0, 1, drawn("goal"), LETTERS)
    key = Block("key (1 in its letter's place)", "", 0, 1, drawn("key"), LETTERS)
    words = Block("what Alice said in this step, letter by letter", "loudness", 0, 1, heard, LETTERS)
    return {0: [words], 1: [key, words], 2: [goal, key]}[row]
