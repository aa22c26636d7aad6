"""ConnectFour-v0 against OpenSpiel 2.0.2's connect_four: random games, every position."""

import numpy as np
import pytest

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core
from parity.references import spiel

BOARDS = {
    "usual": (6, 7, 4),
    "small": (4, 4, 4),
    "long": (8, 6, 5),
    "all bits": (8, 7, 4),
}
EDGES = {"one row": (1, 31, 4, 100), "two columns": (30, 2, 3, 100), "one column": (61, 1, 2, 50)}
"""Boards on which lines of some directions do not fit."""


def board_of(state):
    """Player 0's discs and player 1's, row by row from the bottom."""
    planes = np.array(state.observation_tensor(0))
    return planes.reshape(3, -1)[:2]


def observation(state, player):
    """Own discs, the opponent's, and whether the player is to act."""
    board = board_of(state)
    return [*board[player], *board[1 - player], state.current_player() == player]


def lines(board, length):
    """Return the directions (dx, dy) of the lines on a board (rows, columns)."""
    rows, columns = board.shape
    directions = set()
    for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
        for y in range(rows):
            for x in range(columns):
                cells = [(y + k * dy, x + k * dx) for k in range(length)]
                inside = all(0 <= b < rows and 0 <= a < columns for b, a in cells)
                if inside and all(board[b, a] for b, a in cells):
                    directions.add((dx, dy))
    return directions


def play(rows, columns, length, games):
    """Play random games in OpenSpiel too; return the final states and the number of moves."""
    sizes = dict(rows=rows, columns=columns, x_in_row=length)
    spec = "connect_four(" + ",".join(f"{name}={value}" for name, value in sizes.items()) + ")"
    compared = spiel.random_games("ConnectFour-v0", spec, games, tensor=observation, **sizes)
    return compared.states, compared.decisions


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize("board", EDGES)
def test_boards_at_the_edge(board):
    *_, games = EDGES[board]
    states, _ = play(*EDGES[board])
    assert len(states) == games


@pytest.mark.slow
def test_ten_thousand_playouts():
    states, moves = play(6, 7, 4, 10_000)
    assert len(states) == 10_000
    assert moves > 15 * len(states)
    assert sum(state.returns()[0] == 0 for state in states) > 12  # drawn games are rare


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"rows": 8, "columns": 8},
            r"a board is one 64-bit number: \(rows \+ 1\) \* columns: expected a value <= 63, got .*72",
        ),
        ({"x_in_row": 8}, "x_in_row must fit on the board of 6 x 7, got 8"),
    ],
)
def test_invalid_boards_raise(settings, words):
    with pytest.raises(errors.ConfigError, match=words):
        make_core("ConnectFour-v0", 1, "cpu", **settings)


@pytest.mark.parametrize(
    ("board", "games"), [("usual", 500), *(pytest.param(board, 1_000, marks=pytest.mark.slow) for board in BOARDS)]
)
def test_playouts_equal_the_reference(board, games):
    rows, columns, length = BOARDS[board]
    states, moves = play(rows, columns, length, games)
    assert moves > 5 * games
    returns = np.array([state.returns()[0] for state in states])
    assert min((returns == 1).sum(), (returns == -1).sum()) > games / 8
    counts = {(1, 0): 0, (0, 1): 0, (1, 1): 0, (1, -1): 0}
    for state, result in zip(states, returns, strict=True):
        if result:
            winner = board_of(state)[0 if result > 0 else 1].reshape(rows, columns)
            for direction in lines(winner, length):
                counts[direction] += 1
    assert min(counts.values()) > games / 50, counts
