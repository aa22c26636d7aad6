"""PhantomTicTacToe-v0 against OpenSpiel 2.0.2's phantom_ttt: random games of all settings."""

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core
from parity.references import spiel

GAMES = 10_000
SETTINGS = [
    dict(zip(("gameversion", "obstype"), case, strict=True))
    for case in product(("classical", "abrupt"), ("reveal-nothing", "reveal-numturns"))
]
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


@pytest.mark.parametrize(
    ("settings", "games"),
    [(SETTINGS[0], GAMES // 20), *(pytest.param(case, GAMES, marks=pytest.mark.slow) for case in SETTINGS)],
    ids=str,
)
def test_random_games_equal_the_reference(settings, games):
    listed = ",".join(f"{name}={value}" for name, value in settings.items())
    compared = spiel.random_games("PhantomTicTacToe-v0", f"phantom_ttt({listed})", games, **settings)
    assert len(compared.states) == games
    assert compared.decisions > 9 * games  # tries of occupied cells included
    assert min(compared.results.values()) > games / 100
    assert len(compared.results) == 3
    won = {
        (line, result)
        for state in compared.states
        if (result := state.returns()[0])
        for line in LINES
        if all(board_of(state)[cell] == (1 if result > 0 else -1) for cell in line)
    }
    assert len(won) == 2 * len(LINES)  # every line, for either player


def board_of(state):
    """Return the marks of OpenSpiel's board by cell: 1 for a cross, -1 for a nought."""
    board = np.zeros(9, int)
    for pair in state.full_history():
        if board[pair.action] == 0:
            board[pair.action] = 1 - 2 * pair.player
    return board


@pytest.mark.parametrize(("version", "after"), [("classical", [False, True]), ("abrupt", [True, False])])
def test_try_of_an_occupied_cell_shows_it_and_ends_the_turn_if_abrupt(version, after):
    settings = SETTINGS[0] if version == "classical" else SETTINGS[3]
    core = make_core("PhantomTicTacToe-v0", 1, "cpu", autoreset="disabled", **settings)
    core.reset()
    core.step(torch.tensor([[4, 0]]))
    assert core.action_mask[0, 1].all()  # the mark is hidden
    core.step(torch.tensor([[0, 4]]))
    assert core.to_move[0].tolist() == after
    assert core.obs[0, 1, 2 * 9 + 4] == 1.0  # a cross
    assert core.world_state["marks"].tolist() == [[16, 0]]


def test_cell_that_is_known_is_illegal():
    core = make_core("PhantomTicTacToe-v0", 1, "cpu", **SETTINGS[0])
    core.reset()
    core.step(torch.tensor([[4, 0]]))
    core.step(torch.tensor([[0, 4]]))
    with pytest.raises(errors.ActionError, match="nought_0 in world 0 is illegal"):
        core.step(torch.tensor([[0, 4]]))


@cache
def leaves(board, knowledge, mover):
    """Number of ends of games from a position, by cells that each player knows to be the other's; classical rules."""
    count = 0
    for cell in range(9):
        if board[cell] == mover or cell in knowledge[mover]:
            continue
        if board[cell] >= 0:  # the other's: the mover learns that and tries again
            known_after = tuple(cells | {cell} if player == mover else cells for player, cells in enumerate(knowledge))
            count += leaves(board, known_after, mover)
            continue
        after = (*board[:cell], mover, *board[cell + 1 :])
        ends = -1 not in after or any(all(after[index] == mover for index in line) for line in LINES)
        count += 1 if ends else leaves(after, knowledge, 1 - mover)
    return count


@pytest.mark.slow
def test_page_names_the_size_of_the_tree():
    count = leaves((-1,) * 9, (frozenset(), frozenset()), 0)
    page = Path(__file__).parents[4] / "docs" / "envs" / "games" / "hidden" / "phantom_tic_tac_toe.md"
    assert f" {count:,} leaves" in page.read_text(encoding="utf-8")
