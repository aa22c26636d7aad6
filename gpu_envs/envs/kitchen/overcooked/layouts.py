"""The original kitchens of Overcooked as text, and checks of other kitchens."""

from typing import Any

import numpy as np

from gpu_envs.envs.kitchen.text_grid import read_rows
from gpu_envs.errors import ConfigError

TERRAIN = " XOTPDS"
"""Characters of floor, counter, onion and tomato dispenser, pot, dish dispenser and serving place, by number."""
_ONIONS = {"start_all_orders": (("onion", "onion", "onion"),)}
LAYOUTS: dict[str, dict[str, Any]] = {
    "cramped_room": {"layout_grid": ("XXPXX", "O  2O", "X1  X", "XDXSX"), **_ONIONS},
    "asymmetric_advantages": {
        "layout_grid": ("XXXXXXXXX", "O XSXOX S", "X   P 1 X", "X2  P   X", "XXXDXDXXX"),
        **_ONIONS,
    },
    "coordination_ring": {"layout_grid": ("XXXPX", "X 1 P", "D2X X", "O   X", "XOSXX"), **_ONIONS},
    "forced_coordination": {"layout_grid": ("XXXPX", "O X1P", "O2X X", "D X X", "XXXSX"), **_ONIONS},
    "counter_circuit": {
        "layout_grid": ("XXXPDPXXX", "X   2   X", "X XXXXX X", "X   1   X", "XXXOSTXXX"),
        "start_all_orders": (("onion", "tomato", "tomato"), ("onion", "onion", "tomato"), ("onion", "tomato")),
        "start_bonus_orders": (("onion", "tomato"),),
        "onion_value": 21.0,
        "tomato_value": 13.0,
        "onion_time": 15,
        "tomato_time": 7,
    },
    "counter_circuit_o_1order": {
        "layout_grid": ("XXXPPXXX", "X  2   X", "D XXXX S", "X  1   X", "XXXOOXXX"),
        **_ONIONS,
    },
}
"""Settings of the layouts of overcooked_ai 1.1.0 by their names there. ``counter_circuit_o_1order`` is the counter
circuit of Carroll et al. (2019); ``counter_circuit`` has the tomatoes and orders that the package gave it later."""


class Kitchen:
    """Numbers of a kitchen; cells are numbered column by column, ``x * height + y``.

    Attributes:
        width: Number of columns.
        height: Number of rows.
        surfaces: Cells of the pots, then of the counters beside a floor cell.
        num_pots: Number of pots among them.
        floor: Floor cells.
        start: Cells where the two players start.
        terrain: Kind of terrain + 8 * index of the surface, by cell.

    Args:
        rows: Checked rows of text.
    """

    def __init__(self, rows: tuple[str, ...]) -> None:
        self.width, self.height = len(rows[0]), len(rows)
        text = "".join(rows[y][x] for x in range(self.width) for y in range(self.height))
        self.start: list[int] = [text.index(player) for player in "12"]
        kinds = [TERRAIN.index(" " if character in "12" else character) for character in text]
        self.floor: list[int] = [cell for cell, kind in enumerate(kinds) if kind == 0]
        neighbors = {cell + step for cell in self.floor for step in (-1, 1, -self.height, self.height)}
        pots = [cell for cell, kind in enumerate(kinds) if TERRAIN[kind] == "P"]
        counters = [cell for cell in sorted(neighbors) if TERRAIN[kinds[cell]] == "X"]
        self.surfaces: list[int] = pots + counters
        self.num_pots = len(pots)
        self.terrain: np.ndarray = np.array(kinds, np.int32)
        self.terrain[self.surfaces] += 8 * np.arange(len(self.surfaces), dtype=np.int32)


def read_grid(grid: Any) -> tuple[str, ...]:
    """Return the rows of a kitchen, after checks.

    Args:
        grid: Rows of text as a list, or as one string with rows separated by newlines or "|". Spaces around rows are
            removed, and so are blank rows at the start and the end of a string.

    Raises:
        ConfigError: The kitchen is not one of two players, its border is open, or something that it needs is missing.
    """
    rows = read_rows(grid, TERRAIN[1:] + "12", "12", "XXPXX|O 12X|XDXSX")
    text = "".join(rows)
    if text.count("1") != 1 or text.count("2") != 1:
        raise ConfigError(
            f"layout_grid: expected the players 1 and 2 once each, got {text.count('1')} and {text.count('2')}"
        )
    for letters, name in (("D", "a dish dispenser D"), ("S", "a serving place S"), ("P", "a pot P"), ("OT", "O or T")):
        if not set(letters) & set(text):
            raise ConfigError(f"layout_grid: expected {name}, got none")
    return rows
