"""Observations, actions and rewards of MarkovSoccer-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.games.hidden.markov_soccer import Config, sizes_of

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Both players": ("a_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("player that scores", "a goal before the horizon", "win_reward"),
    RewardTerm("the other player", "a goal before the horizon", "-win_reward"),
)
_MOVES = ("up", "down", "left", "right", "stand")
_PLANES = (
    "player 0 without the ball",
    "player 0 with the ball",
    "player 1 without the ball",
    "player 1 with the ball",
    "the ball alone",
    "nothing",
)


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = tuple(enumerate(_MOVES))
    return [Table("`Discrete(5)`, numbered as in OpenSpiel", ("index", "move"), rows)]


def action_names(config: Config, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return _MOVES


def _planes(world: World, cells: int) -> np.ndarray:
    """Return the plane of every cell."""
    state, found = world.state, np.full(cells, 5)
    if state["holder"] < 0:
        found[state["ball"]] = 4
    for player in range(2):
        if state["scorer"] != player:
            found[state["cell"][player]] = 2 * player + int(state["holder"] == player)
    return found


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    s = sizes_of(config)
    cells = s.rows * s.columns
    names = [f"row {cell // s.columns}, column {cell % s.columns}" for cell in range(cells)]

    def plane(index: int):
        return lambda world, row: _planes(world, cells) == index

    return [
        ObservationBlock(f"cells with {piece}, row by row", "", 0, 1, plane(index), cells, names)
        for index, piece in enumerate(_PLANES)
    ]
