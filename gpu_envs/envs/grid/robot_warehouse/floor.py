"""Floors of RobotWarehouse-v0: places of shelves, corridors and goals, from sizes or from text."""

import numpy as np

from gpu_envs.errors import ConfigError, shown
from warp_kernels.grid.robot_warehouse.robot_warehouse import CORRIDOR, GOAL, PLACE

__all__ = ["MAX_SIDE", "floor_from_sizes", "floor_from_text"]

MAX_SIDE = 1000
"""Largest number of rows or columns of cells."""


def floor_from_sizes(
    shelf_columns: int, shelf_rows: int, column_height: int
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the kinds of cells (rows, columns) int8, and row and column of the two goals.

    Columns of shelves are two cells wide and corridors one. The goals are in the middle of the bottom row, and the
    corridor to them leads through the bottom column of shelves in the middle.

    Raises:
        ConfigError: The number of columns is even, or the floor is too large.
    """
    if shelf_columns % 2 == 0:
        raise ConfigError(f"shelf_columns: expected an odd number, got {shelf_columns}")
    rows, columns = (column_height + 1) * shelf_rows + 2, 3 * shelf_columns + 1
    if max(rows, columns) > MAX_SIDE:
        names = "shelf_rows and column_height" if rows > MAX_SIDE else "shelf_columns"
        raise ConfigError(f"{names}: expected at most {MAX_SIDE} rows and columns of cells, got {rows} x {columns}")
    floor = np.full((rows, columns), PLACE, np.int8)
    floor[:: column_height + 1] = CORRIDOR
    floor[-1] = CORRIDOR
    floor[:, ::3] = CORRIDOR
    middle = columns // 2
    floor[rows - column_height - 2 :, middle - 1 : middle + 1] = CORRIDOR
    goals = [(rows - 1, middle - 1), (rows - 1, middle)]
    for goal in goals:
        floor[goal] = GOAL
    return floor, goals


def floor_from_text(layout: str) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the kinds of cells (rows, columns) int8, and row and column of the goals, row by row.

    Raises:
        ConfigError: The text has other characters, lines of unequal lengths, no goal, or is too large.
    """
    lines = layout.strip().replace("|", "\n").replace(" ", "").split("\n")
    kinds = {"x": PLACE, ".": CORRIDOR, "g": GOAL}
    for number, line in enumerate(lines):
        wrong = sorted(set(line.lower()) - set(kinds))
        if wrong:
            raise ConfigError(f"layout: expected the characters x, g and a dot, got {wrong[0]!r} in line {number + 1}")
        if len(line) != len(lines[0]):
            raise ConfigError(
                f"layout: expected lines of equal lengths, got {len(line)} cells in line {number + 1} and "
                f"{len(lines[0])} in line 1"
            )
    if max(len(lines), len(lines[0])) > MAX_SIDE:
        size = f"{len(lines)} x {len(lines[0])}"
        raise ConfigError(f"layout: expected at most {MAX_SIDE} rows and columns, got {size}")
    floor = np.array([[kinds[cell] for cell in line.lower()] for line in lines], np.int8)
    goals = [(int(row), int(column)) for row, column in np.argwhere(floor == GOAL)]
    if not goals:
        raise ConfigError(f"layout: expected at least one goal, g, got {shown(layout)}")
    return floor, goals
