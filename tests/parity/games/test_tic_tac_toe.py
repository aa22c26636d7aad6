"""TicTacToe-v0 against OpenSpiel 2.0.2's tic_tac_toe: random games, every position."""

from collections import Counter

import numpy as np
import pytest

from parity.references import spiel

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def board_of(state):
    """Player 0's marks and player 1's, row by row from the top."""
    return np.array(state.observation_tensor(0)).reshape(3, 9)[[2, 1]]


def observation(state, player):
    """Own marks, the opponent's, and whether the player is to act."""
    board = board_of(state)
    return [*board[player], *board[1 - player], state.current_player() == player]


@pytest.mark.parametrize("games", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_playouts_equal_the_reference(games):
    compared = spiel.random_games("TicTacToe-v0", "tic_tac_toe", games, tensor=observation)
    assert compared.decisions > 7 * games
    ends, drawn = Counter(), 0
    for state in compared.states:
        result = state.returns()[0]
        drawn += result == 0
        if result:
            winner = board_of(state)[0 if result > 0 else 1]
            ends.update((line, result) for line in LINES if winner[list(line)].all())
    assert len(ends) == 2 * len(LINES)  # every line, for either player
    assert min(ends.values()) > games / 100
    assert drawn > games / 20
