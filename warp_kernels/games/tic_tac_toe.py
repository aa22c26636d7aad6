"""TicTacToe: two players mark the cells of a 3 x 3 board; three in a row win. OpenSpiel 2.0.2's tic_tac_toe."""

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

    marks: wp.array2d(dtype=wp.uint64)  # (E, 2) a player's marks: bit 4 * column + row, row 0 at the top
    mover: wp.array(dtype=int)  # (E,) player to act; -1 after the end of the game


@wp.func
def index_of(cell: int) -> int:
    """Return the bit index of a cell; cells are counted row by row."""
    return 4 * (cell % 3) + cell // 3


@wp.func
def mark(filled: wp.uint64, cell: int) -> wp.uint64:
    """Return the bit of the cell."""
    return boards.bit(index_of(cell))


@wp.func
def is_free(filled: wp.uint64, cell: int) -> bool:
    """Return whether the cell is free."""
    return boards.at(filled, index_of(cell)) == 0


@cache
def rules() -> Rules:
    """Build the rules."""
    return boards.game("tic_tac_toe", Params, State, (3, 3, 3, 9), mark, is_free)
