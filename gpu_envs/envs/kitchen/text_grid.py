"""Kitchens as rows of text."""

from typing import Any

from gpu_envs.errors import ConfigError, shown

MAX_SIDE = 64
"""Largest number of rows or columns."""


def read_rows(grid: Any, characters: str, open_characters: str, example: str) -> tuple[str, ...]:
    """Return the rows of a kitchen, after checks of its form.

    Args:
        grid: Rows of text as a list, or as one string with rows separated by newlines or "|". Spaces around rows are
            removed, and so are blank rows at the start and the end of a string.
        characters: Characters of terrain and agents besides the space of the floor.
        open_characters: Those among them that stand on floor cells.
        example: Kitchen for messages.

    Raises:
        ConfigError: It is no text, its rows have other lengths or characters, or its border is open.
    """
    rows = _split(grid) if isinstance(grid, str) else grid
    if not isinstance(rows, tuple | list) or not rows or not all(isinstance(row, str) for row in rows):
        raise ConfigError(f"layout_grid: expected rows of text such as '{example}', got {shown(grid)}")
    lines, rows = tuple(rows), tuple(row.strip() for row in rows)
    if len({len(row) for row in rows}) > 1 and len({len(row) for row in lines}) == 1:
        rows = lines  # the spaces are not an indentation, but gaps in the border
    width, text = len(rows[0]), "".join(rows)
    if any(len(row) != width for row in rows) or not 3 <= width <= MAX_SIDE or not 3 <= len(rows) <= MAX_SIDE:
        sizes = f"3 to {MAX_SIDE} rows of equal lengths from 3 to {MAX_SIDE}"
        raise ConfigError(f"layout_grid: expected {sizes}, got lengths {[len(row) for row in rows]}")
    unknown = sorted(set(text) - set(characters) - {" "})
    if unknown:
        raise ConfigError(f"layout_grid: expected the characters {characters!r} and spaces, got {unknown[0]!r}")
    border = rows[0] + rows[-1] + "".join(row[0] + row[-1] for row in rows)
    if set(border) & {" ", *open_characters}:
        raise ConfigError("layout_grid: expected a border without floor and agents, got one with a gap; close it")
    return rows


def _split(text: str) -> list[str]:
    """Return the rows of a text without blank ones at the start and the end."""
    rows = text.replace("|", "\n").split("\n")
    filled = [index for index, row in enumerate(rows) if row.strip()]
    return rows[filled[0] : filled[-1] + 1] if filled else []
