"""Things of Overcooked as numbers: terrain, items with their ingredients and clocks, and layers of observations.

An item is an int32; 0 is none. Bits 0 to 2 are its kind, bits 3 to 10 its recipe, onions + 16 tomatoes. From bit 11 on
it is 0 before a soup cooks, else 1 + the steps that it has cooked.
"""

import warp as wp

FLOOR: int = wp.constant(0)
"""Terrain on which players stand."""
COUNTER: int = wp.constant(1)
"""Terrain that holds an item."""
ONION_DISPENSER: int = wp.constant(2)
"""Terrain with any number of onions."""
TOMATO_DISPENSER: int = wp.constant(3)
"""Terrain with any number of tomatoes."""
POT: int = wp.constant(4)
"""Terrain that cooks soups."""
DISH_DISPENSER: int = wp.constant(5)
"""Terrain with any number of dishes."""
SERVING: int = wp.constant(6)
"""Terrain where soups are served."""

DISH: int = wp.constant(1)
"""Item: an empty dish."""
ONION: int = wp.constant(2)
"""Item: an onion."""
TOMATO: int = wp.constant(3)
"""Item: a tomato."""
SOUP: int = wp.constant(4)
"""Item: a soup, in a pot or on a dish."""
TICK: int = wp.constant(1 << 11)
"""Amount by which a step of cooking changes an item."""
NUM_RECIPES = 256
"""Number of recipes that an item can have, also those that no pot holds."""
NUM_LAYERS = 26
"""Number of layers of an observation."""


@wp.func(inline=True)
def figure(cell: int, facing: int, item: int):
    """Return a player as a number: its cell in bits 0 to 11, its orientation in 12 and 13, then the item it holds."""
    return cell | (facing << 12) | (item << 14)


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
