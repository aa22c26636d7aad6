"""PhantomTicTacToe: tic-tac-toe without seeing the opponent's marks. OpenSpiel 2.0.2's phantom_ttt."""

from functools import cache

import warp as wp

from warp_kernels.games.hidden import phantom_boards
from warp_kernels.rules import Rules

Params = phantom_boards.Params
State = phantom_boards.State

CELLS: int = wp.constant(9)
"""Number of cells."""
PLANES = 3
"""States of a cell in an observation: empty or unknown, nought, cross."""
_LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
# the masks of all lines, one after the other
_MASKS = wp.constant(wp.types.vector(8, wp.uint64)(*(sum(1 << cell for cell in line) for line in _LINES)))


@cache
def rules(reveal_turns: bool, abrupt: bool) -> Rules:
    """Build the rules; the arguments are as in :func:`warp_kernels.games.hidden.phantom_boards.game`."""

    @wp.func
    def has_won(marks: wp.uint64, player: int) -> bool:
        has_line = bool(False)
        for line in range(8):
            has_line = has_line or (marks & _MASKS[line]) == _MASKS[line]
        return has_line

    @wp.func
    def column_of(cell: int, owner: int, wins: bool) -> int:
        plane = wp.where(owner < 0, 0, 2 - owner)  # player 0 has crosses, which come last
        return plane * CELLS + cell

    key = f"phantom_tic_tac_toe {reveal_turns} {abrupt}"
    return phantom_boards.game(key, CELLS, PLANES, reveal_turns, abrupt, has_won, column_of)
