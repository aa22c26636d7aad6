"""The original kitchens of OvercookedV2 as text, and checks of other kitchens."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from gpu_envs.envs.kitchen.text_grid import read_rows
from gpu_envs.errors import ConfigError, shown
from warp_kernels.kitchen.overcooked_v2.items import (
    BUTTON,
    COUNTER,
    FLOOR,
    GOAL,
    INDICATOR,
    INGREDIENTS,
    KIND_BITS,
    PLATES,
    POT,
    POT_SIZE,
)

TERRAIN = " WXPRLB0123456789"
"""Characters of terrain by number: floor, counter, goal, pot, recipe and button indicator, plates, ingredients."""
EXAMPLE = "WWPWW|0A A1|W   R|WBWXW"
"""Kitchen for messages."""
MAX_VIEW = 64
"""Largest number of cells that an agent sees in each direction."""
Recipe = tuple[int, ...]
"""Ingredients, sorted."""
_ONIONS, _EQUAL = ((0, 0, 0),), ((0, 0, 0), (1, 1, 1))
LAYOUTS: dict[str, tuple[str, tuple[Recipe, ...] | None, bool]] = {
    "cramped_room": ("WWPWW|0A A0|W   W|WBWXW", _ONIONS, True),
    "asymm_advantages": ("WWWWWWWWW|0 WXW0W X|W   P   W|W A PA  W|WWWBWBWWW", _ONIONS, False),
    "coord_ring": ("WWWPW|W A P|BAW W|0   W|W0XWW", _ONIONS, False),
    "forced_coord": ("WWWPW|0 WAP|0AW W|B W W|WWWXW", _ONIONS, False),
    "counter_circuit": ("WWWPPWWW|W A    W|B WWWW X|W     AW|WWW00WWW", _ONIONS, True),
    "cramped_room_v2": ("WWPWW|0A A1|W   R|WBWXW", None, False),
    "asymm_advantages_recipes_center": ("WWWWWWWWW|0 WXR01 X|1   P   W|W A PA  W|WWWBWBWWW", None, False),
    "asymm_advantages_recipes_right": ("WWWWWWWWW|0 WXW01 X|1   P   R|W A PA  W|WWWBWBWWW", None, False),
    "asymm_advantages_recipes_left": ("WWWWWWWWW|0 WXW01 X|1   P   R|R A PA  W|WWWBWBWWW", None, False),
    "two_rooms": ("WWWWWB10W|W   W   R|P A W A W|W   W   X|WWWWWWWWW", None, False),
    "two_rooms_both": ("W01BWB10W|W   W   R|P A W A W|W   W   X|WWWWWWWWW", None, False),
    "long_room": ("WWWWWWWWWWWWWWW|B            AP|0             X|WWWWWWWWWWWWWWW", _ONIONS, False),
    "fun_coordination": ("WWWWWWWWW|0   X   2|RA  P  AW|1   B   3|WWWWWWWWW", ((0, 0, 2), (1, 1, 3)), False),
    "more_fun_coordination": ("WWWWWWWWW|W   X   W|RA  P  A1|0   P   2|W   B   W|WWWWWWWWW",
                              ((0, 1, 1), (0, 2, 2)), False),
    "fun_symmetries": ("WWWWBWW|2  W  0|R APA X|2  W  1|WWWWBWW", _EQUAL, False),
    "fun_symmetries_plates": ("WWWWWWW|B  W  0|R APA X|B  W  1|WWWWWWW", _EQUAL, False),
    "fun_symmetries1": ("WWWWWBWW|2  WW  0|R AWPA X|2  WW  1|WWWWWBWW", _EQUAL, False),
    "grounded_coord_simple": ("WW2WWWWW|W  WB  0|R ALPA X|W  WB  1|WW2WWWWW", _EQUAL, False),
    "grounded_coord_ring": ("WWW2R2WWW|W       W|W WWLWW W|2 0   B 2|RAXAP X R|2 1   B 2|W WWLWW W|W       W|WWW2R2WWW",
                            _EQUAL, False),
    "test_time_simple": ("WW2WWWWW|W  WB  0|R AWPA X|W  WB  1|WW2WWWWW", _EQUAL, False),
    "test_time_wide": ("WWXBWW|0 A  0|1    1|WPWPWW|3 A  3|W    W|WWRWWW", _EQUAL, False),
    "demo_cook_simple": ("WWWWWR2W0WW|0      W  B|W     APA X|1      W  B|WWWWWR2W1WW", _EQUAL, False),
    "demo_cook_wide": ("WWWWBXBWWWW|WWW0 A 1WWW|WWWWWPWWWWW|W    A    W|0  W3R3W  0|W1WWWWWWW1W", _EQUAL, False),
}  # fmt: skip
"""Rows, possible recipes (None: all) and whether agents count from the end, of JaxMARL's layouts by their names."""


@dataclass(frozen=True)
class RecipeKitchen:
    """Numbers of a kitchen; cells are numbered row by row, ``y * width + x``."""

    rows: tuple[str, ...]
    """Checked rows of text."""
    reverse: bool = False
    """Agents count from the end of the text."""

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @cached_property
    def kinds(self) -> np.ndarray:
        """Kind of terrain by cell, (C,) int32."""
        return np.array([TERRAIN.index(character.replace("A", " ")) for character in "".join(self.rows)], np.int32)

    @cached_property
    def starts(self) -> list[int]:
        """Cells where the agents start."""
        cells = [cell for cell, character in enumerate("".join(self.rows)) if character == "A"]
        return cells[::-1] if self.reverse else cells

    def of_kind(self, *kinds: int) -> list[int]:
        """Return the cells of these kinds of terrain."""
        return np.flatnonzero(np.isin(self.kinds, kinds)).tolist()

    @property
    def pots(self) -> list[int]:
        """Cells of the pots."""
        return self.of_kind(POT)

    @property
    def counters(self) -> list[int]:
        """Cells of the counters."""
        return self.of_kind(COUNTER)

    @property
    def buttons(self) -> list[int]:
        """Cells of the buttons."""
        return self.of_kind(BUTTON)

    @cached_property
    def terrain(self) -> np.ndarray:
        """Kind of terrain, and from bit 5 on the index of the surface or timer, by cell, (C,) int32."""
        indices = np.zeros_like(self.kinds)
        indices[[*self.pots, *self.counters]] = np.arange(len(self.pots) + len(self.counters))
        indices[self.buttons] = len(self.pots) + np.arange(len(self.buttons))
        return self.kinds + (indices << KIND_BITS)

    @property
    def num_ingredients(self) -> int:
        """Number of ingredients: the largest digit of the text + 1."""
        return max(1, int(self.kinds.max()) + 1 - INGREDIENTS)

    @cached_property
    def rooms(self) -> np.ndarray:
        """Number of the room by cell, -1 where no agent can stand, (C,) int32."""
        rooms = np.full_like(self.kinds, -1)
        for cell in self.of_kind(FLOOR):
            if rooms[cell] < 0:
                reached = [cell]
                while reached:
                    spot = reached.pop()
                    if rooms[spot] < 0:
                        rooms[spot] = cell
                        reached += [beside for beside in self.neighbors(spot) if self.kinds[beside] == FLOOR]
        return rooms

    def neighbors(self, cell: int) -> list[int]:
        """Return the cells above, below, on the left and on the right."""
        y, x = divmod(cell, self.width)
        inside = (y > 0, y + 1 < self.height, x > 0, x + 1 < self.width)
        return [cell + step for step, ok in zip((-self.width, self.width, -1, 1), inside, strict=True) if ok]

    @cached_property
    def teams(self) -> dict[int, set[int]]:
        """Rooms from which agents reach a cell that is no floor, joined where agents hand items over counters."""
        manned = {int(self.rooms[cell]) for cell in self.starts}
        reach = {cell: {int(self.rooms[beside]) for beside in self.neighbors(cell)} & manned
                 for cell in range(len(self.kinds)) if self.kinds[cell] != FLOOR}  # fmt: skip
        team = {room: room for room in manned}
        for cell in self.counters:
            for room in reach[cell]:
                joined, root = team[room], team[min(reach[cell])]
                team = {name: root if value == joined else value for name, value in team.items()}
        return {cell: {team[room] for room in rooms} for cell, rooms in reach.items()}

    def teams_at(self, *kinds: int) -> set[int]:
        """Return the teams that reach a cell of these kinds."""
        return {team for cell in self.of_kind(*kinds) for team in self.teams[cell]}


def check_solvable(kitchen: RecipeKitchen, recipes: Iterable[Recipe], source: str) -> None:
    """Check that the agents can cook and deliver every recipe.

    Args:
        kitchen: Kitchen.
        recipes: Recipes.
        source: Name of the setting, for messages.

    Raises:
        ConfigError: No agent gets to something that the recipe needs, or it cannot be brought to where it is needed.
    """
    piles = _piles(kitchen)
    for recipe in recipes:
        if not set(recipe) <= set(piles):
            raise ConfigError(f"{source}: expected ingredients of the kitchen, {piles}, got the recipe {list(recipe)}")
        parts = [kitchen.teams_at(INGREDIENTS + ingredient) for ingredient in set(recipe)]
        servers = kitchen.teams_at(PLATES) & kitchen.teams_at(GOAL)
        if not any(servers & kitchen.teams[pot] and all(part & kitchen.teams[pot] for part in parts)
                   for pot in kitchen.pots):  # fmt: skip
            raise ConfigError(
                f"{source}: expected a kitchen whose agents can cook and deliver the recipe {list(recipe)}, got one "
                "where no pot is in reach of its ingredients, of plates and of a goal; open a way or join rooms by a "
                "counter W"
            )


def read_grid(grid: Any) -> tuple[str, ...]:
    """Return the rows of a kitchen, after checks; O is another letter for ingredient 0.

    Args:
        grid: As for :func:`gpu_envs.envs.kitchen.text_grid.read_rows`.

    Raises:
        ConfigError: The text is no kitchen, its border is open, or something that it needs is missing.
    """
    rows = read_rows(grid, TERRAIN[1:] + "AO", "A", EXAMPLE)
    text = "".join(rows)
    needed = ("A", "an agent A"), ("P", "a pot P"), ("X", "a goal X"), ("B", "a pile of plates B")
    for letters, name in (*needed, ("O0123456789", "a pile of an ingredient 0 to 9")):
        if not set(letters) & set(text):
            raise ConfigError(f"layout_grid: expected {name}, got none")
    return tuple(row.replace("O", "0") for row in rows)


def read_recipes(recipes: Any) -> tuple[Recipe, ...]:
    """Return recipes as sorted tuples.

    Raises:
        ConfigError: They are no lists of three ingredients.
    """
    result = []
    for recipe in recipes if isinstance(recipes, tuple | list) and recipes else [None]:
        items = recipe if isinstance(recipe, tuple | list) else ()
        fits = all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= 9 for item in items)
        if len(items) != POT_SIZE or not fits:
            expected = f"lists of {POT_SIZE} ingredients 0 to 9 such as [[0, 0, 1]]"
            raise ConfigError(f"possible_recipes: expected {expected}, got {shown(recipes)}")
        result.append(tuple(sorted(items)))
    return tuple(result)


def all_recipes(kitchen: RecipeKitchen) -> tuple[Recipe, ...]:
    """Return all recipes of the ingredients that a kitchen has."""
    return tuple(combinations_with_replacement(_piles(kitchen), POT_SIZE))


def _piles(kitchen: RecipeKitchen) -> list[int]:
    """Return the ingredients of which a kitchen has a pile."""
    return sorted({int(kind) - INGREDIENTS for kind in kitchen.kinds if kind >= INGREDIENTS})


def has_indicator(kitchen: RecipeKitchen) -> bool:
    """Return whether a kitchen has a recipe indicator R, so that all recipes are possible."""
    return bool(kitchen.of_kind(INDICATOR))
