"""ConnectFour: two players drop discs into columns; four in a row win. OpenSpiel 2.0.2's connect_four."""

from functools import cache

import warp as wp

from warp_kernels.games import boards
from warp_kernels.rules import Rules


@wp.struct
class Params:
    """Environment parameters."""

    win_reward: float  # of the winner; the loser gets the negative


@wp.struct
class State:
    """State of E worlds, two players."""

    marks: wp.array2d(dtype=wp.uint64)  # (E, 2) a player's discs: bit column * (rows + 1) + row, row 0 at the bottom
    mover: wp.array(dtype=int)  # (E,) player to act; -1 after the end of the game


@cache
def rules(rows: int, columns: int, x_in_row: int) -> Rules:
    """Build the rules for a board of (rows + 1) * columns <= 63 bits."""
    one_column = wp.constant(wp.uint64((1 << rows) - 1))

    @wp.func
    def drop(filled: wp.uint64, column: int) -> wp.uint64:
        """Return the lowest free cell of a column: adding the bottom bit carries through its discs."""
        bottom = column * (rows + 1)
        return (filled + boards.bit(bottom)) & (one_column << wp.uint64(bottom))

    @wp.func
    def has_room(filled: wp.uint64, column: int) -> bool:
        return boards.at(filled, column * (rows + 1) + rows - 1) == 0

    key = f"connect_four {rows} {columns} {x_in_row}"
    return boards.game(key, Params, State, (rows, columns, x_in_row, columns), drop, has_room)
