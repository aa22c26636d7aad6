"""Layouts of wood, stone and water from ai-economist 1.7.1, and checks of other layouts."""

from typing import Any

import numpy as np

from gpu_envs.errors import ConfigError, shown
from warp_kernels.economy.gather_trade_build.economy_types import PRESENT

__all__ = ["KINDS", "LAYOUTS", "MAX_SIDE", "Layout", "read_layout"]

MAX_SIDE = 64
"""Largest number of rows or columns."""
KINDS = " SW@"
"""Characters of land, a source of stone, a source of wood, and water, by number."""
LAYOUTS: dict[str, str] = {
    "closed_quadrant_25x25_20each_30clump.txt": (
        "WWWWW  W    @ W          |WW W        @ W      W WW| W          @         W W|SW S S      @            |"
        "            @   W      W | SS         @            | S          @            |            @            |"
        "            @            |S      S    @            |            @            |            @            |"
        "@@@@@@@@@@@@@@@@@@@@@@@@@| S          @            |S S         @            |   S        @            |"
        "SS          @            | SS         @            |SS          @            |  S         @            |"
        "            @            |            @            |            @            |            @            |"
        "S           @            "
    ),
    "env-pure_and_mixed-15x15.txt": (
        "WWW    @       |WSS    @       |WWW    @       |WWW    @       |WSS            |SWS            |"
        "       @       |@@@@  @@@@  @@@|       @       |WWW    @    S  | WW         SS |WWW          SS|"
        "W W    @       |W      @       |       @     S "
    ),
    "env-pure_and_mixed-25x25.txt": (
        " WW W       @            | SWWW       @            |SSWW        @            |WSSSW       @            |"
        "WSSWW                    |WS WS                    |  WWS                    |SWW S       @            |"
        "  S W       @            | WS W       @            |            @            |            @            |"
        "@@@@   @@@@@@@@@@@@   @@@|            @            |            @            |  W         @       SSSSS|"
        " WW         @       SSS  |            @        S SS| WW W       @       SSS S|W WW                SSSS |"
        "WWW                 S  SS| WWWW                S S |WW  W       @       S    |    W       @          S |"
        "   W        @       S SSS"
    ),
    "env-pure_and_mixed-40x40.txt": (
        "   W  WW                                |         W                              |"
        " W  W     W                             |      W                                 |"
        "   W        W                           |  W    W W                              |"
        "       W W                              |      WW                                |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                          SS       W    |                                WW     W|"
        "                                        |                             S      S  S|"
        "                               W  WW S  |                              S  S  W   |"
        "                           W   WS   S S |                                        |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |   S                                    |"
        "S   S                                   |                                        |"
        "   SS                                   |                                        |"
        "     S  SS  S                           |   SS S  S                              |"
        "S SS    S   S                           |SSSS S  SS                              "
    ),
    "quadrant_25x25_20each_30clump.txt": (
        "WWWWW  W    @ W          |WW W        @ W      W WW| W          @         W W|SW S S      @            |"
        "            @   W      W | SS                      | S                       |                         |"
        "                         |S      S    @            |            @            |            @            |"
        "@@@@@    @@@@@@@    @@@@@| S          @            |S S         @            |   S        @            |"
        "SS                       | SS                      |SS                       |  S                      |"
        "            @            |            @            |            @            |            @            |"
        "S           @            "
    ),
    "quadrant_25x25_20each_30clump_no_water.txt": (
        "WWWWW  W      W          |WW W          W      W WW| W                    W W|SW S S                   |"
        "                W      W | SS                      | S                       |                         |"
        "                         |S      S                 |                         |                         |"
        "                         | S                       |S S                      |   S                     |"
        "SS                       | SS                      |SS                       |  S                      |"
        "                         |                         |                         |                         |"
        "S                        "
    ),
    "quadrant_40x40_50each.txt": (
        "WWWWWWWW   WW      @@ WW                |WWWWWWWW   WW      @@ WW                |"
        "WWW  W             @@ WW          W  WWW|  W                @@              WW WW|"
        "  W                @@              WW WW|SSW  S  SS         @@                   |"
        "                   @@     W          W  |                   @@     W          W  |"
        "  SSS                                   |  SSS                                   |"
        "  S                                     |                                        |"
        "                                        |                                        |"
        "SS         SS      @@                   |SS         SS      @@                   |"
        "                   @@                   |                   @@                   |"
        "                   @@                   |@@@@@@@@      @@@@@@@@@@@@      @@@@@@@@|"
        "@@@@@@@@      @@@@@@@@@@@@      @@@@@@@@|  S                @@                   |"
        "SS SS              @@                   |SS SS              @@                   |"
        "     S             @@                   |     S             @@                   |"
        "SSS                                     |  SSS                                   |"
        "  SSS                                   |SSS                                     |"
        "   SS                                   |   SS                                   |"
        "                   @@                   |                   @@                   |"
        "                   @@                   |                   @@                   |"
        "                   @@                   |                   @@                   |"
        "SS                 @@                   |SS                 @@                   "
    ),
    "quadrant_40x40_50each_no_water.txt": (
        "WWWWWWWW   WW         WW                |WWWWWWWW   WW         WW                |"
        "WWW  W                WW          W  WWW|  W                                WW WW|"
        "  W                                WW WW|SSW  S  SS                              |"
        "                          W          W  |                          W          W  |"
        "  SSS                                   |  SSS                                   |"
        "  S                                     |                                        |"
        "                                        |                                        |"
        "SS         SS                           |SS         SS                           |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |  S                                     |"
        "SS SS                                   |SS SS                                   |"
        "     S                                  |     S                                  |"
        "SSS                                     |  SSS                                   |"
        "  SSS                                   |SSS                                     |"
        "   SS                                   |   SS                                   |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |                                        |"
        "SS                                      |SS                                      "
    ),
    "quadrant_8x8_4each_8clump.txt": (  # the file has 9 rows and columns
        "WWWW@WW W| WW @ WWW|SW S@ S  |S   @    |@@ @@@ @@| S  @    |S S @    |S   @    |   S@    "
    ),
    "top_wood_bottom_stone_14x14.txt": (
        "  WW       W  |      WW      |WW W   W      |              |              |              |              |"
        "              |              |              |              |       SS    S|S   S        S|S     S   S   "
    ),
    "uniform_25x25_25each_65clump.txt": (
        "                    SSSSS|                SS   SSSS|                  SS SSSS|                   S SSSS|"
        "                      SS |                         |                         |                         |"
        "                         |                         |                         |                         |"
        "                         |                         |                         |                         |"
        "                         |                         |                         |                         |"
        "                        W|                 W     WW|                      WW |W     WW W          W WWW|"
        "WWWWW WW       W    WWWWW"
    ),
}
"""Rows of the layouts by the names of their files in the original; "|" ends a row."""


class Layout:
    """Numbers of a layout; cells are numbered row by row.

    Attributes:
        height: Number of rows.
        width: Number of columns.
        terrain: Cells at the start, ``warp_kernels.economy.gather_trade_build.economy_types.State.cell``.
        sources: Cells where a resource grows.
        land: Cells without water.

    Args:
        rows: Checked rows of text.
    """

    def __init__(self, rows: tuple[str, ...]) -> None:
        self.height, self.width = len(rows), len(rows[0])
        kinds = np.array([KINDS.index(character) for character in "".join(rows)], np.int32)
        grows = (kinds == 1) | (kinds == 2)
        self.terrain: np.ndarray = kinds + np.int32(PRESENT) * grows
        self.sources: np.ndarray = np.flatnonzero(grows).astype(np.int32)
        self.land: np.ndarray = np.flatnonzero(kinds != 3).astype(np.int32)


def read_layout(layout: Any, num_agents: int) -> tuple[str, ...]:
    """Return the rows of a layout, after checks.

    Args:
        layout: Rows of text as a list, or as one string with rows separated by newlines, ";" or "|".
        num_agents: Number of agents that must find a cell.

    Raises:
        ConfigError: Rows differ in length, a character is unknown, or there is too little land.
    """
    rows = layout.replace(";", "|").replace("\n", "|").strip("|").split("|") if isinstance(layout, str) else layout
    if not isinstance(rows, tuple | list) or not rows or not all(isinstance(row, str) for row in rows):
        raise ConfigError(f"env_layout: expected rows of text such as 'W  S|  @ |S  W', got {shown(layout)}")
    width = len(rows[0])
    if any(len(row) != width for row in rows) or not 2 <= width <= MAX_SIDE or not 2 <= len(rows) <= MAX_SIDE:
        sizes = f"2 to {MAX_SIDE} rows of equal lengths from 2 to {MAX_SIDE}"
        raise ConfigError(f"env_layout: expected {sizes}, got lengths {[len(row) for row in rows]}")
    unknown = sorted(set("".join(rows)) - set(KINDS))
    if unknown:
        raise ConfigError(f"env_layout: expected the characters 'S', 'W', '@' and spaces, got {unknown[0]!r}")
    land = sum(character != "@" for character in "".join(rows))
    if land < num_agents:
        raise ConfigError(f"env_layout: expected a cell without water for each of {num_agents} agents, got {land}")
    return tuple(rows)
