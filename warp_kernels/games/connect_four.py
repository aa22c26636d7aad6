"""ConnectFour: two players drop discs into columns; four in a row win. OpenSpiel 2.0.2's connect_four."""

from functools import cache

import warp as wp

from warp_kernels.games import boards
from warp_kernels.rules import Rules


@wp.struct
class Params:
    """Constants of a world."""

    win_reward: float  # for the winner; the loser pays as much


@wp.struct
class State:
    """E worlds, two players."""

    marks: wp.array2d(dtype=wp.uint64)  # (E, 2) a player's discs: bit column * (rows + 1) + row, row 0 at the bottom
    mover: wp.array(dtype=int)  # (E,) who is on the move; -1 when the game is over


@cache
def rules(rows: int, columns: int, x_in_row: int) -> Rules:
    """Build the rules for a board of (rows + 1) * columns <= 63 bits."""
    one_column = wp.constant(wp.uint64((1 << rows) - 1))

    @wp.func
    def drop(filled: wp.uint64, column: int) -> wp.uint64:
        """One more at the bottom carries through the column's discs and comes to rest on the first free cell."""
        bottom = column * (rows + 1)
        return (filled + boards.bit(bottom)) & (one_column << wp.uint64(bottom))

    @wp.func
    def has_room(filled: wp.uint64, column: int) -> bool:
        return boards.at(filled, column * (rows + 1) + rows - 1) == 0

    key = f"connect_four {rows} {columns} {x_in_row}"
    return boards.game(key, Params, State, (rows, columns, x_in_row, columns), drop, has_room)
