"""What the numbers of TagGridworld-v0 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.meanings import Block, Reward, Table, World
from gpu_envs.tag.tag_gridworld import Config

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {
    "Everyone (default)": ("tagger_0", {}),
    "The other side only, a tagger, with `use_full_observation=False`": ("tagger_0", {"use_full_observation": False}),
    "The other side only, the runner": ("runner_0", {"use_full_observation": False}),
}
# Causes of reward.
REWARDS = (
    Reward("both", "every step it runs into the wall", "-wall_hit_penalty"),
    Reward("tagger", "every step without a tag", "-step_cost_for_tagger"),
    Reward("runner", "every step without a tag", "step_cost_for_tagger"),
    Reward("tagger", "any tagger tags the runner", "tag_reward_for_tagger"),
    Reward("runner", "it is tagged", "-tag_penalty_for_runner"),
)


def actions() -> list[Table]:
    """The one table."""
    rows = tuple(enumerate(("stay", "+x", "-x", "+y", "-y")))
    return [Table("`Discrete(5)`: one cell along an axis", ("index", "move"), rows)]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return actions()[0].column(1)


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    count, runner = config.num_taggers + 1, config.num_taggers

    def places(axis: int):
        return lambda world, row: world.state["cell"][:, axis] / config.grid_length

    def one_hot(which):
        return lambda world, row: np.eye(count)[which(row)]

    def place_of(other):
        return lambda world, row: world.state["cell"][other(world, row)] / config.grid_length

    def nearest_tagger(world: World, row: int) -> int:
        taggers = world.state["cell"][:runner].astype(int)
        return int(np.argmin(((taggers - world.state["cell"][row]) ** 2).sum(1)))  # the first of equals

    XY = ("x", "y")
    time = Block("time", "`episode_length`", 0, 1, lambda world, row: world.time)
    cells = "`grid_length`"
    if config.use_full_observation:
        return [
            Block("x of all, row order", cells, 0, 1, places(0), count),
            Block("y of all", cells, 0, 1, places(1), count),
            Block("type of all: 0 tagger, 1 runner", "", 0, 1, one_hot(lambda row: runner), count),
            Block("oneself: 1 in one's own place, else 0", "", 0, 1, one_hot(lambda row: row), count),
            time,
        ]
    if row == runner:
        met = Block(
            "cell (x, y) of the nearest tagger, the lowest row among equals",
            cells,
            0,
            1,
            place_of(nearest_tagger),
            2,
            XY,
        )
    else:
        met = Block("cell (x, y) of the runner", cells, 0, 1, place_of(lambda world, row: runner), 2, XY)
    return [
        Block("own cell (x, y)", cells, 0, 1, place_of(lambda world, row: row), 2, XY),
        met,
        Block("own type: 0 tagger, 1 runner", "", 0, 1, lambda world, row: float(row == runner)),
        time,
    ]
