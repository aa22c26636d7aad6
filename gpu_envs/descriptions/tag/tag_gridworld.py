"""Observations, actions and rewards of TagGridworld-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.tag.tag_gridworld import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "All agents (default)": ("tagger_0", {}),
    "A tagger, with `use_full_observation=False`": ("tagger_0", {"use_full_observation": False}),
    "The runner, with `use_full_observation=False`": ("runner_0", {"use_full_observation": False}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("both", "every step in which it runs into the wall", "-wall_hit_penalty"),
    RewardTerm("tagger", "every step without a tag", "-step_cost_for_tagger"),
    RewardTerm("runner", "every step without a tag", "step_cost_for_tagger"),
    RewardTerm("tagger", "any tagger tags the runner", "tag_reward_for_tagger"),
    RewardTerm("runner", "it is tagged", "-tag_penalty_for_runner"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = tuple(enumerate(("stay", "+x", "-x", "+y", "-y")))
    return [Table("`Discrete(5)`: one cell along an axis", ("index", "move"), rows)]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return action_tables()[0].column(1)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    count, runner = config.num_taggers + 1, config.num_taggers

    def places(axis: int):
        return lambda world, row: world.state["cell"][:, axis] / config.grid_length

    def one_hot(which):
        return lambda world, row: np.eye(count)[which(row)]

    def place_of(other):
        return lambda world, row: world.state["cell"][other(world, row)] / config.grid_length

    def nearest_tagger(world: World, row: int) -> int:
        taggers = world.state["cell"][:runner].astype(int)
        return int(
            np.argmin(((taggers - world.state["cell"][row]) ** 2).sum(1))
        )  # the first of several nearest taggers

    XY = ("x", "y")
    time = ObservationBlock("time", "`episode_length`", 0, 1, lambda world, row: world.time)
    cells = "`grid_length`"
    if config.use_full_observation:
        return [
            ObservationBlock("x of all agents in row order", cells, 0, 1, places(0), count),
            ObservationBlock("y of all agents", cells, 0, 1, places(1), count),
            ObservationBlock("type of all agents: 0 tagger, 1 runner", "", 0, 1, one_hot(lambda row: runner), count),
            ObservationBlock("own row, one-hot", "", 0, 1, one_hot(lambda row: row), count),
            time,
        ]
    if row == runner:
        met = ObservationBlock(
            "cell (x, y) of the nearest tagger, the lowest row among ties",
            cells,
            0,
            1,
            place_of(nearest_tagger),
            2,
            XY,
        )
    else:
        met = ObservationBlock("cell (x, y) of the runner", cells, 0, 1, place_of(lambda world, row: runner), 2, XY)
    return [
        ObservationBlock("own cell (x, y)", cells, 0, 1, place_of(lambda world, row: row), 2, XY),
        met,
        ObservationBlock("own type: 0 tagger, 1 runner", "", 0, 1, lambda world, row: float(row == runner)),
        time,
    ]
