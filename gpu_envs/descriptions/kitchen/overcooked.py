"""Observations, actions and rewards of Overcooked-v0."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.kitchen.overcooked import LAYER_HIGHS, Config
from gpu_envs.envs.kitchen.overcooked.layouts import TERRAIN

__all__ = ["LAYERS", "OBSERVATIONS", "REWARDS", "action_names", "action_tables", "layers", "observation_blocks"]

_DIRECTIONS = ("north", "south", "east", "west")
LAYERS = (
    *("the player is here", "the other player is here"),
    *(f"the player here faces {direction}" for direction in _DIRECTIONS),
    *(f"the other player here faces {direction}" for direction in _DIRECTIONS),
    *("pot", "counter", "onion dispenser", "tomato dispenser", "dish dispenser", "serving place"),
    *("onions in a pot that does not cook", "tomatoes in a pot that does not cook"),
    *("onions in a soup", "tomatoes in a soup", "steps until the soup is ready", "ready soup"),
    *("dish", "onion", "tomato", "fewer than 40 steps are left"),
)
"""Meanings of the 26 layers; items in hands are in the cell of their player."""

# Observation tables of the documentation page, by title: (agent, settings).
_SMALL = {"layout_grid": ("XPXX", "O12D", "XSXX")}
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    'Cell by cell (default), here of the kitchen `layout_grid=("XPXX", "O12D", "XSXX")`': ("player_0", _SMALL),
    "Layer by layer, with `channels_first=True`": ("player_0", {**_SMALL, "channels_first": True}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("both players", "one serves a soup of `start_all_orders`", "value of the recipe, by default 20"),
    RewardTerm("both players", "one serves a soup of `start_bonus_orders`", "`order_bonus` * value of the recipe"),
    RewardTerm("a player", "it places an ingredient in a pot", "`reward_shaping_factor` * `placement_in_pot_reward`"),
    RewardTerm("a player", "it takes a useful dish", "`reward_shaping_factor` * `dish_pickup_reward`"),
    RewardTerm("a player", "it takes a soup from a pot", "`reward_shaping_factor` * `soup_pickup_reward`"),
)


def action_tables() -> list[Table]:
    """Return the action table."""
    meanings = (
        "north: turn to the row above, and go there if the cell is free",
        "south: turn to the row below, and go there if the cell is free",
        "east: turn to the column on the right, and go there if the cell is free",
        "west: turn to the column on the left, and go there if the cell is free",
        "stay",
        "interact with the cell in front: take, put, cook or serve",
    )
    return [Table("`Discrete(6)`: move or interact", ("index", "meaning"), tuple(enumerate(meanings)))]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return [*_DIRECTIONS, "stay", "interact"]


def layers(world: World, row: int) -> np.ndarray:
    """Return the layers that the agent in this row observes, (26, cells)."""
    kitchen, state = world.config.kitchen, world.state
    found = np.zeros((len(LAYERS), len(kitchen.terrain)))

    def show(cell: int, item: int) -> None:
        kind, recipe = item & 7, (item >> 3) & 255
        found[[18, 19], cell] = recipe & 15, recipe >> 4
        found[{1: 22, 2: 23, 3: 24, 4: 21}[kind], cell] = 1

    for who, player in enumerate((row, 1 - row)):
        cell = int(state["place"][player])
        found[who, cell] = found[2 + 4 * who + int(state["facing"][player]), cell] = 1
        if state["held"][player]:
            show(cell, int(state["held"][player]))
    for layer, character in enumerate("PXOTDS", start=10):
        found[layer] = (kitchen.terrain & 7) == TERRAIN.index(character)
    for surface, cell in enumerate(kitchen.surfaces):
        item = int(state["item"][surface])
        recipe, tick = (item >> 3) & 255, item >> 11
        if surface >= kitchen.num_pots and item:
            show(cell, item)
        elif item and not tick:
            found[[16, 17], cell] = recipe & 15, recipe >> 4
        elif item:
            left = int(state["cook_time"][recipe]) + 1 - tick
            found[[18, 19, 20, 21], cell] = recipe & 15, recipe >> 4, left, left <= 0
    horizon = world.config.horizon
    found[25] = horizon - round(world.time * horizon) < 40
    return found


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    kitchen = config.kitchen
    cells = [f"column {x}, row {y}" for x in range(kitchen.width) for y in range(kitchen.height)]
    highs = dict.fromkeys(LAYER_HIGHS["ingredients"], config.max_num_ingredients)
    highs |= dict.fromkeys(LAYER_HIGHS["time"], config.longest_time)

    def layer(index: int) -> Callable[[World, int], np.ndarray]:
        return lambda world, row: layers(world, row)[index]

    def cell(index: int) -> Callable[[World, int], np.ndarray]:
        return lambda world, row: layers(world, row)[:, index]

    if config.channels_first:
        return [
            ObservationBlock(
                name, "steps" if index == 20 else "", 0, highs.get(index, 1), layer(index), len(cells), cells
            )
            for index, name in enumerate(LAYERS)
        ]
    high = max(highs.values())
    return [
        ObservationBlock(f"layers of the cell in {name}", "", 0, high, cell(index), len(LAYERS), LAYERS)
        for index, name in enumerate(cells)
    ]
