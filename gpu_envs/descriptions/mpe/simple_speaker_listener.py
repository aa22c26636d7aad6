"""What the numbers of SimpleSpeakerListener-v0 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.meanings import ANY, Block, Reward, Table, World
from gpu_envs.meanings.mpe import STEER, short

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"The speaker": ("speaker_0", {}), "The listener": ("listener_0", {})}
LETTERS = 3  # that there are
# Causes of reward.
REWARDS = (Reward("speaker, listener", "every step", "-(distance of the listener from the goal)² [m²]"),)


def actions() -> list[Table]:
    """Of either agent, both kinds of action."""
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


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return short(actions()[row].column(1))


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent in a row."""

    def colour(world: World, row: int) -> np.ndarray:
        return 0.15 + 0.5 * np.eye(3)[world.state["goal"]]

    def velocity(world: World, row: int) -> np.ndarray:
        return world.state["vel"][row]

    def landmarks(world: World, row: int) -> np.ndarray:
        return (world.state["pos"][2:] - world.state["pos"][row]).ravel()

    def heard(world: World, row: int) -> np.ndarray:
        return world.state["said"][0]

    if row == 0:
        return [Block("colour (r, g, b) of the goal", "", 0.15, 0.65, colour, 3, ("r", "g", "b"))]
    return [
        Block("own velocity (x, y)", "m/s", -ANY, ANY, velocity, 2, ("x", "y")),
        Block("landmarks relative to oneself (x, y of each)", "m", -ANY, ANY, landmarks, 6, ("x", "y")),
        Block("what the speaker said in this step, letter by letter", "loudness", 0, 1, heard, LETTERS),
    ]
