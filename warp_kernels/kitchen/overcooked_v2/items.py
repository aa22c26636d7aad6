"""Things of OvercookedV2 as numbers: terrain and items.

The number of a cell has its kind of terrain in bits 0 to 4; the index of its surface or timer follows from bit 5 on. An
item is a sum of PLATE, COOKED and counts of ingredients, two bits each from bit 2 on; 0 is none.
"""

import warp as wp

FLOOR: int = wp.constant(0)
"""Terrain on which agents stand."""
COUNTER: int = wp.constant(1)
"""Terrain that holds an item; every wall is a counter."""
GOAL: int = wp.constant(2)
"""Terrain where dishes are delivered."""
POT: int = wp.constant(3)
"""Terrain that cooks three ingredients."""
INDICATOR: int = wp.constant(4)
"""Terrain that shows the recipe."""
BUTTON: int = wp.constant(5)
"""Terrain that shows the recipe for some steps after an agent has pressed it."""
PLATES: int = wp.constant(6)
"""Terrain with any number of plates."""
INGREDIENTS: int = wp.constant(7)
"""Terrain with any number of ingredient 0; those of the next ingredients follow."""
KIND_BITS: int = wp.constant(5)
"""Bits of the kind in the number of a cell."""
MAX_INGREDIENTS = 10
"""Largest number of kinds of ingredients."""
POT_SIZE: int = wp.constant(3)
"""Number of ingredients of a full pot and of a recipe."""

PLATE: int = wp.constant(1)
"""Item: a plate."""
COOKED: int = wp.constant(2)
"""Part of an item: its ingredients are cooked."""
DISH: int = wp.constant(3)
"""Item but for its ingredients: a plate with cooked ones."""


@wp.func(inline=True)
def ingredient(index: int):
    """Return the item of one ingredient."""
    return 4 << (2 * index)


@wp.func(inline=True)
def num_ingredients(item: int):
    """Return the number of ingredients of an item."""
    count = int(0)
    counts = item >> 2
    while counts > 0:
        count += counts & 3
        counts = counts >> 2
    return count
