"""What the numbers of SimpleReference-v0 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.meanings import ANY, Block, Reward, Table, World
from gpu_envs.meanings.mpe import STEER, short

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"Both agents": ("agent_0", {})}
LETTERS = 10  # that there are
# Causes of reward.
REWARDS = (
    Reward("agent", "every step", "-`local_ratio` × d(oneself)"),
    Reward("agent", "every step", "-(1 - `local_ratio`) × (d(agent_0) + d(agent_1)) / 2"),
)


def actions() -> list[Table]:
    """Both kinds of action."""
    both = [f"letter {letter}, {push}" for letter in range(LETTERS) for push in STEER]
    apart = [*STEER, *(f"letter {letter}" for letter in range(LETTERS))]
    return [
        Table(
            "`Discrete(50)`, the default: letter × 5 + push, full throttle and full loudness",
            ("index", "word and push"),
            tuple(enumerate(both)),
        ),
        Table(
            "`Box(0, 1, (15,))`, with `continuous_actions=True`: throttles, of which opposite ones subtract, then a "
            "loudness per letter",
            ("component", "push or word", "range"),
            tuple((index, word if index else "nothing, ignored", "[0, 1]") for index, word in enumerate(apart)),
        ),
    ]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return short(actions()[0].column(1))


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent in a row."""

    def velocity(world: World, row: int) -> np.ndarray:
        return world.state["vel"][row]

    def landmarks(world: World, row: int) -> np.ndarray:
        return (world.state["pos"][2:] - world.state["pos"][row]).ravel()

    def colour(world: World, row: int) -> np.ndarray:
        return 0.25 + 0.5 * np.eye(3)[world.state["goal"][row]]

    def heard(world: World, row: int) -> np.ndarray:
        return world.state["said"][1 - row]

    return [
        Block("own velocity (x, y)", "m/s", -ANY, ANY, velocity, 2, ("x", "y")),
        Block("landmarks relative to oneself (x, y of each)", "m", -ANY, ANY, landmarks, 6, ("x", "y")),
        Block("colour (r, g, b) of the landmark where the other should go", "", 0.25, 0.75, colour, 3, ("r", "g", "b")),
        Block("what the other said in this step, letter by letter", "loudness", 0, 1, heard, LETTERS),
    ]
