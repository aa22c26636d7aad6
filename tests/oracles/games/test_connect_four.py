"""ConnectFour-v0 against OpenSpiel 2.0.2's connect_four: random games, every position."""

import numpy as np
import pytest
from references import spiel

BOARDS = {"usual": (6, 7, 4, 10_000), "small": (4, 4, 4, 1_000), "long": (8, 6, 5, 1_000)}


def board_of(state):
    """Player 0's discs and player 1's, row by row from the bottom."""
    planes = np.array(state.observation_tensor(0))
    return planes.reshape(3, -1)[:2]


def lines(board, length):
    """Directions (dx, dy) of the lines on a board (rows, columns)."""
    rows, columns = board.shape
    found = set()
    for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
        for y in range(rows):
            for x in range(columns):
                cells = [(y + k * dy, x + k * dx) for k in range(length)]
                inside = all(0 <= b < rows and 0 <= a < columns for b, a in cells)
                if inside and all(board[b, a] for b, a in cells):
                    found.add((dx, dy))
    return found


@pytest.mark.parametrize("board", BOARDS)
def test_playouts(board):
    rows, columns, length, games = BOARDS[board]
    sizes = dict(rows=rows, columns=columns, x_in_row=length)
    told = "connect_four(" + ",".join(f"{name}={value}" for name, value in sizes.items()) + ")"
    states, moves = spiel.play_boards("ConnectFour-v0", told, games, board_of, **sizes)
    assert moves > 5 * games
    returns = np.array([state.returns()[0] for state in states])
    assert min((returns == 1).sum(), (returns == -1).sum()) > games / 8
    assert (returns == 0).sum() > games / 800
    seen = {(1, 0): 0, (0, 1): 0, (1, 1): 0, (1, -1): 0}
    for state, result in zip(states[:1000], returns, strict=False):
        if result:
            winner = board_of(state)[0 if result > 0 else 1].reshape(rows, columns)
            for direction in lines(winner, length):
                seen[direction] += 1
    assert min(seen.values()) > 20, seen
