"""Observations, actions and rewards of SimpleWorldComm-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ANY, ObservationBlock, RewardTerm, Table, World
from gpu_envs.descriptions.mpe.particles import STEER, short

__all__ = ["LETTERS", "OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "The leader": ("leadadversary_0", {}),
    "Another adversary": ("adversary_0", {}),
    "A good agent": ("agent_0", {}),
}
LETTERS = 4  # size of the alphabet
XY = ("x", "y")  # of a position or a velocity
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("leadadversary, adversary", "every step, per touch of any adversary and any good agent", "tag_reward"),
    RewardTerm("leadadversary, adversary", "every step, per meter to the nearest good agent", "-chase_cost"),
    RewardTerm("agent", "every step, per adversary that touches it", "-tag_reward"),
    RewardTerm("agent", "every step, per unit of outside(x) + outside(y), see the rules", "-leave_cost"),
    RewardTerm("agent", "every step, per food that it touches", "food_reward"),
    RewardTerm("agent", "every step, per meter to the nearest food", "-hunger_cost"),
)


def action_tables() -> list[Table]:
    """Return the tables of discrete and of continuous actions of the leader and of the other agents."""
    both = [f"letter {letter}, {push}" for letter in range(LETTERS) for push in STEER]
    apart = [*STEER, *(f"letter {letter}" for letter in range(LETTERS))]
    return [
        Table(
            "Leader, `Discrete(20)`, the default: letter × 5 + push, full throttle and full loudness",
            ("index", "word and push"),
            tuple(enumerate(both)),
        ),
        Table(
            "Other agents, `Discrete(5)`, the default: full throttle in one direction",
            ("index", "push"),
            tuple(enumerate(STEER)),
        ),
        Table(
            "Leader, `Box(0, 1, (9,))`, with `continuous_actions=True`: throttles, of which opposite ones are "
            "subtracted, then a loudness per letter",
            ("component", "push or word", "range"),
            tuple((index, word if index else "nothing, ignored", "[0, 1]") for index, word in enumerate(apart)),
        ),
        Table(
            "Other agents, `Box(0, 1, (5,))`, with `continuous_actions=True`: a throttle per direction; opposite ones "
            "subtract",
            ("component", "push", "range"),
            tuple((index, word if index else "nothing, ignored", "[0, 1]") for index, word in enumerate(STEER)),
        ),
    ]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return short(action_tables()[min(row, 1)].column(1))


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    adversaries, count = config.num_adversaries, config.num_adversaries + config.num_good
    food = count + config.num_obstacles
    forests = food + config.num_food
    entities = forests + config.num_forests
    others = [other for other in range(count) if other != row]
    good = [other for other in others if other >= adversaries]

    def inside(world: World, agent: int) -> np.ndarray:
        size = world.params["adversary_size" if agent < adversaries else "good_size"]
        gaps = world.state["pos"][forests:] - world.state["pos"][agent]
        return np.linalg.norm(gaps, axis=1) < world.params["forest_size"] + size

    def seen(world: World, other: int) -> bool:
        mine, theirs = inside(world, row), inside(world, other)
        return bool((mine & theirs).any() or not (mine | theirs).any() or row == 0)

    def own(name):
        return lambda world, row: world.state[name][row]

    def places(first, last):
        return lambda world, row: (world.state["pos"][first:last] - world.state["pos"][row]).ravel()

    def offsets(world: World, row: int) -> np.ndarray:
        pos = world.state["pos"]
        return np.concatenate([(pos[other] - pos[row]) * seen(world, other) for other in others])

    def velocities(world: World, row: int) -> np.ndarray:
        return np.concatenate([world.state["vel"][other] * seen(world, other) for other in good])

    def hides(world: World, row: int) -> np.ndarray:
        return np.where(inside(world, row), 1, -1)

    def heard(world: World, row: int) -> np.ndarray:
        return world.state["said"][0]

    adversary = row < adversaries
    cap, sight = 1.0 if adversary else 1.3, "; 0 if not visible" if row else ""
    speeds = ObservationBlock(
        f"velocities of the other good agents (x, y of each){sight}", "m/s", -1.3, 1.3, velocities, 2 * len(good), XY
    )
    covers = ObservationBlock("forests: 1 if the agent is inside, else -1", "", -1, 1, hides, config.num_forests)
    named = [
        ObservationBlock("own velocity (x, y)", "m/s", -cap, cap, own("vel"), 2, XY),
        ObservationBlock("own position (x, y)", "m", -ANY, ANY, own("pos"), 2, XY),
        ObservationBlock(
            "obstacles relative to the agent (x, y of each)",
            "m",
            -ANY,
            ANY,
            places(count, food),
            2 * (food - count),
            XY,
        ),
        ObservationBlock(
            "food relative to the agent (x, y of each)", "m", -ANY, ANY, places(food, forests), 2 * (forests - food), XY
        ),
        ObservationBlock(
            "forests relative to the agent (x, y of each)",
            "m",
            -ANY,
            ANY,
            places(forests, entities),
            2 * config.num_forests,
            XY,
        ),
        ObservationBlock(
            f"other agents relative to the agent (x, y of each, row order){sight}",
            "m",
            -ANY,
            ANY,
            offsets,
            2 * len(others),
            XY,
        ),
        *((speeds, covers) if adversary else (covers, speeds)),
    ]
    if adversary:
        named.append(
            ObservationBlock(
                "the leader's message in this step, one value per letter", "loudness", 0, 1, heard, LETTERS
            )
        )
    return [block for block in named if block.width]
