"""Things of Overcooked as numbers: terrain, items with their ingredients and clocks, and layers of observations.

An item is an int32: its kind in bits 0 to 2, its recipe (onions + 16 tomatoes) in bits 3 to 10, and from bit 11 on 0
before a soup cooks, else 1 + the steps that it has cooked. 0 is no item.
"""

import warp as wp

__all__ = [
    "COUNTER",
    "DISH",
    "DISH_DISPENSER",
    "FLOOR",
    "NUM_LAYERS",
    "NUM_RECIPES",
    "ONION",
    "ONION_DISPENSER",
    "POT",
    "SERVING",
    "SOUP",
    "TICK",
    "TOMATO",
    "TOMATO_DISPENSER",
    "figure",
    "item_kind",
    "item_recipe",
    "item_tick",
    "num_ingredients",
]

FLOOR: int = wp.constant(0)
COUNTER: int = wp.constant(1)
ONION_DISPENSER: int = wp.constant(2)
TOMATO_DISPENSER: int = wp.constant(3)
POT: int = wp.constant(4)
DISH_DISPENSER: int = wp.constant(5)
SERVING: int = wp.constant(6)

DISH: int = wp.constant(1)
ONION: int = wp.constant(2)
TOMATO: int = wp.constant(3)
SOUP: int = wp.constant(4)
TICK: int = wp.constant(1 << 11)
"""Amount by which a step of cooking changes an item."""
NUM_RECIPES = 256
"""Number of recipes that an item can have, also those that no pot holds."""
NUM_LAYERS = 26
"""Number of layers of an observation."""


@wp.func(inline=True)
def figure(cell: int, facing: int, held: int):
    """Return a player as a number: its cell in bits 0 to 11, its orientation in 12 and 13, then the item it holds."""
    return cell | (facing << 12) | (held << 14)


@wp.func(inline=True)
def item_kind(item: int):
    """Return the kind of an item, 0 for none."""
    return item & 7


@wp.func(inline=True)
def item_recipe(item: int):
    """Return onions + 16 tomatoes of a soup."""
    return (item >> 3) & 255


@wp.func(inline=True)
def item_tick(item: int):
    """Return 0 before a soup cooks, else 1 + the steps that it has cooked."""
    return item >> 11


@wp.func(inline=True)
def num_ingredients(item: int):
    """Return the number of ingredients of a soup."""
    recipe = item_recipe(item)
    return (recipe & 15) + (recipe >> 4)
