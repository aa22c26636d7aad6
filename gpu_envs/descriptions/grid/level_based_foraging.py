"""Observations, actions and rewards of LevelBasedForaging-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.grid.level_based_foraging import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "A list of foods and players (default)": ("player_0", {}),
    "With `observe_agent_levels=False`": ("player_0", {"observe_agent_levels": False}),
    "Layers of cells, with `grid_observation=True` and `sight=2`": ("player_0", {"grid_observation": True, "sight": 2}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm(
        "players who load a food together",
        "their levels add up to at least its level",
        "level of the player * level of the food / (sum of their levels * sum of all foods at the start)",
    ),
    RewardTerm(
        "the same, with `normalize_reward=False`",
        "their levels add up to at least its level",
        "level of the player * level of the food",
    ),
    RewardTerm("players who load a food together", "their levels add up to less", "-penalty"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    meanings = (
        "none: stay",
        "north: to the row above",
        "south: to the row below",
        "west: to the column on the left",
        "east: to the column on the right",
        "load: stay and load the adjacent food",
    )
    return [
        Table("`Discrete(6)`: the cell that a player wants, or load", ("index", "meaning"), tuple(enumerate(meanings)))
    ]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return ["none", "north", "south", "west", "east", "load"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    return _grid_blocks(config) if config.grid_observation else _list_blocks(config)


def _list_blocks(config: Config) -> list[ObservationBlock]:
    sight, side = config.reach, max(config.field_size) - 1
    highest = int(config.ranges("player", config.players).max())

    def corner(world: World, row: int) -> np.ndarray:
        """Return the upper left cell that the agent sees."""
        return np.maximum(world.state["player"][row, :2].astype(int) - sight, 0)

    def foods(world: World, row: int) -> list[tuple[int, ...]]:
        """Return row, column and level of the foods that the agent sees, row by row."""
        own = world.state["player"][row, :2].astype(int)
        found = [food for food in world.state["food"].astype(int) if food[2] > 0]
        near = [food for food in found if np.abs(food[:2] - own).max() <= sight]
        return sorted((*(food[:2] - corner(world, row)).tolist(), int(food[2])) for food in near)

    def players(world: World, row: int) -> list[tuple[int, ...]]:
        """Return row, column and level of the agent and of the players that it sees."""
        order = [row, *(other for other in range(config.players) if other != row)]
        found = [world.state["player"][other].astype(int) for other in order]
        cells = [(*(player[:2] - corner(world, row)).tolist(), int(player[2])) for player in found]
        return [cell for cell in cells if min(cell[:2]) >= 0 and max(cell[:2]) <= 2 * sight]

    def entries(seen, index: int, part: slice):
        """Return the reader of a part of the food or player at an index; it is not there: -1, -1, 0."""

        def read(world: World, row: int) -> list[int]:
            found = seen(world, row)
            return list((found[index] if index < len(found) else (-1, -1, 0))[part])

        return read

    window = "from the upper left cell of the sight"
    things = [(f"food {index}", foods, index, True) for index in range(config.max_num_food)]
    for index in range(config.players):
        name = f"other player {index - 1}" if index else "the own player"
        things.append((name, players, index, config.observe_agent_levels))
    blocks = []
    for name, seen, index, has_level in things:
        always = seen is players and index == 0
        meaning = f"{name}{'' if always else ' in sight'}, cell (row, column) {window}{'' if always else '; -1: none'}"
        parts = ("row", "column")
        blocks.append(ObservationBlock(meaning, "cells", -1, side, entries(seen, index, slice(0, 2)), 2, parts))
        if has_level:
            high = config.highest_food_level if seen is foods else highest
            blocks.append(ObservationBlock(f"{name}, level", "", 0, high, entries(seen, index, slice(2, 3))))
    return blocks


def _grid_blocks(config: Config) -> list[ObservationBlock]:
    sight = config.reach
    across = 2 * sight + 1
    highest = int(config.ranges("player", config.players).max()) if config.observe_agent_levels else 1

    def window(layer: np.ndarray, world: World, row: int) -> np.ndarray:
        """Return the cells around the agent of a layer (rows, columns), flat; cells outside of the field are 0."""
        top, left = world.state["player"][row, :2].astype(int)
        return np.pad(layer, sight)[top : top + across, left : left + across].ravel()

    def players(world: World, row: int) -> np.ndarray:
        layer = np.zeros(config.field_size)
        for cell_row, column, level in world.state["player"]:
            layer[cell_row, column] = level if config.observe_agent_levels else 1
        return window(layer, world, row)

    def foods(world: World, row: int) -> np.ndarray:
        layer = np.zeros(config.field_size)
        for cell_row, column, level in world.state["food"]:
            if level > 0:
                layer[cell_row, column] = level
        return window(layer, world, row)

    def free(world: World, row: int) -> np.ndarray:
        layer = np.ones(config.field_size)
        for cell_row, column, _ in world.state["player"]:
            layer[cell_row, column] = 0
        return window(layer, world, row) * (foods(world, row) == 0)

    offsets = range(-sight, sight + 1)
    cells = tuple(f"row {down:+d}, column {right:+d}" for down in offsets for right in offsets)
    what = "levels of players" if config.observe_agent_levels else "1 where a player is"
    around = "in the cells around the player, row by row"
    return [
        ObservationBlock(f"{what} {around}", "", 0, highest, players, across**2, cells),
        ObservationBlock(f"levels of foods {around}", "", 0, config.highest_food_level, foods, across**2, cells),
        ObservationBlock(f"1 where a cell of the field is free, {around}", "", 0, 1, free, across**2, cells),
    ]
