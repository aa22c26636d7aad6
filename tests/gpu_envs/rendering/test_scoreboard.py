"""Names, returns and winners above the frames of a match."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gpu_envs.rendering.scoreboard import GROUND, Scoreboard

pytest.importorskip("PIL")


def board_of(is_zero_sum=True):
    """Return the scoreboard of three worlds with three agents, two of which are on one side."""
    core = SimpleNamespace(
        num_envs=3,
        device="cpu",
        elapsed_steps=torch.tensor([1, 1, 1]),
        alive=torch.ones(3, 3, dtype=torch.bool),
        definition=SimpleNamespace(zero_sum=is_zero_sum),
    )
    return core, Scoreboard(core, {"A": [0, 1], "B": [2]}, 200)


def texts(board):
    return [[text for text, _ in lines] for lines in board.lines()]


def test_returns_are_sums_over_the_agents_of_a_side_and_begin_anew():
    core, board = board_of()
    for _ in range(2):
        board.observe(torch.tensor([[1.0, 0.5, -1.5], [0.0, 0.0, 0.0], [2.0, 2.0, -4.0]]))
    assert texts(board)[0] == ["A  return 3.0", "B  return -3.0"]
    core.elapsed_steps[2] = 0  # a new episode
    board.observe(torch.zeros(3, 3))
    assert texts(board)[2] == ["A  return 0.0", "B  return 0.0"]


def test_winner_is_named_at_the_end_of_a_zero_sum_game():
    core, board = board_of()
    board.observe(torch.tensor([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 1.0]]))
    assert not any(has_won for lines in board.lines() for _, has_won in lines)
    core.alive[:] = False
    assert texts(board) == [
        ["A  return 1.0  won", "B  return -1.0"],
        ["A  return 0.0  draw", "B  return 0.0  draw"],
        ["A  return -1.0", "B  return 1.0  won"],
    ]
    assert [[has_won for _, has_won in lines] for lines in board.lines()] == [
        [True, False],
        [False, False],
        [False, True],
    ]


def test_other_games_have_no_winner():
    core, board = board_of(is_zero_sum=False)
    board.observe(torch.ones(3, 3))
    core.alive[:] = False
    assert texts(board)[0] == ["A  return 2.0", "B  return 1.0"]


def test_lines_are_above_the_frames():
    _, board = board_of()
    frames = np.full((3, 200, 200, 3), 7, np.uint8)
    framed = board.add_lines(frames)
    height = 2 * board.line_height
    assert framed.shape == (3, 200 + height, 200, 3)
    assert (framed[:, height:] == 7).all()
    bar = framed[0, :height]
    assert tuple(bar[0, -1]) == GROUND
    assert (bar != GROUND).any(-1).sum() > 50, "there is text"


def test_long_names_are_shortened_to_the_width():
    core, _ = board_of()
    board = Scoreboard(core, {"a very long name " * 5: [0], "B": [1]}, 100)
    ((text, _), _), *_ = board.lines()
    assert text.endswith("…  return 0.0")
    assert len(text) <= 20
