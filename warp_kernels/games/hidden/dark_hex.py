"""DarkHex: Hex without seeing the opponent's stones. OpenSpiel 2.0.2's dark_hex.

Player 0 (black) connects the top row with the bottom row, player 1 (white) the left column with the right one. A cell
touches six others: left, right, the two of the row above that are straight and to the right, and the two below that
are straight and to the left.
"""

from functools import cache

import warp as wp

from warp_kernels.games.hidden import phantom_boards
from warp_kernels.rules import Rules

Params = phantom_boards.Params
State = phantom_boards.State

PLANES: int = wp.constant(9)
"""States of a cell in an observation, of which five occur, see ``column_of``."""
_EMPTY: int = wp.constant(4)  # index of the state of a cell without a known stone


@cache
def rules(rows: int, columns: int, reveal_turns: bool, abrupt: bool) -> Rules:
    """Build the rules for a board of at least 2 x 2 cells.

    The last two arguments are as in :func:`warp_kernels.games.hidden.phantom_boards.game`.
    """
    cells = rows * columns

    def mask(chosen) -> wp.uint64:
        return wp.constant(wp.uint64(sum(1 << cell for cell in range(cells) if chosen(*divmod(cell, columns)))))

    top, bottom = mask(lambda row, column: row == 0), mask(lambda row, column: row == rows - 1)
    left, right = mask(lambda row, column: column == 0), mask(lambda row, column: column == columns - 1)
    not_left, not_right = mask(lambda row, column: column > 0), mask(lambda row, column: column < columns - 1)
    across, down, slant = (wp.constant(wp.uint64(step)) for step in (1, columns, columns - 1))

    @wp.func
    def has_won(marks: wp.uint64, player: int) -> bool:
        """Return whether the stones connect the player's two sides."""
        group = marks & top
        goal = bottom
        if player == 1:
            group = marks & left
            goal = right
        previous = wp.uint64(0)
        while group != previous:
            previous = group
            near = (group << down) | (group >> down)
            near = near | ((group & not_right) << across) | ((group & not_left) >> across)
            near = near | ((group & not_left) << slant) | ((group & not_right) >> slant)
            group = group | (near & marks)
        return (group & goal) != wp.uint64(0)

    @wp.func
    def column_of(cell: int, owner: int, wins: bool) -> int:
        shift = wp.where(owner < 0, 0, 1 - 2 * owner)  # black is above empty, white below
        return cell * PLANES + _EMPTY + wp.where(wins, 4 * shift, shift)

    key = f"dark_hex {rows} {columns} {reveal_turns} {abrupt}"
    return phantom_boards.game(key, cells, PLANES, reveal_turns, abrupt, has_won, column_of)
