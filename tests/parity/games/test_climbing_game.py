"""ClimbingGame-v0 against the tables of Claus and Boutilier 1998, and against MatrixGame-v0."""

import pytest
import torch

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core

CLIMBING = [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]
JOINT = torch.tensor([[row, column] for row in range(3) for column in range(3)])


def penalty_game(k):
    return [[10, 0, k], [0, 2, 0], [k, 0, 10]]


@pytest.mark.parametrize(
    ("settings", "table"),
    [
        ({}, CLIMBING),
        ({"game": "penalty"}, penalty_game(-100)),
        ({"game": "penalty", "penalty": -7.5}, penalty_game(-7.5)),
        ({"game": "penalty", "penalty": 0}, penalty_game(0)),
    ],
)
def test_all_payoff_cells_equal_the_table(settings, table):
    core = make_core("ClimbingGame-v0", 9, "cpu", **settings)
    obs, _ = core.reset()
    assert torch.equal(obs, torch.eye(2).expand(9, 2, 2))
    _, reward, terminated, truncated, info = core.step(JOINT)
    assert reward.tolist() == [[float(table[row][column])] * 2 for row, column in JOINT.tolist()]
    assert terminated.all()
    assert not truncated.any()
    assert torch.equal(info["final_obs"], obs)


def test_pays_as_a_matrix_game():
    payoff = [[[cell, cell] for cell in row] for row in CLIMBING]
    ours = make_core("ClimbingGame-v0", 50, "cpu", seed=3)
    table = make_core("MatrixGame-v0", 50, "cpu", seed=3, payoff=payoff, num_repetitions=1)
    ours.reset()
    table.reset()
    for _ in range(10):
        action = ours.sample_actions()
        assert torch.equal(action, table.sample_actions())
        left, right = ours.step(action), table.step(action)
        assert all(torch.equal(a, b) for a, b in zip(left[1:4], right[1:4], strict=True))
        assert torch.equal(left[4]["episode_return"], right[4]["episode_return"])


def test_tables_by_world():
    core = make_core("ClimbingGame-v0", 2, "cpu")
    core.set_params(payoff_12=torch.tensor([1.0, 2.0]))
    core.reset()
    assert core.step(torch.tensor([[1, 2], [1, 2]]))[1].tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_invalid_settings_raise():
    with pytest.raises(errors.ConfigError, match="game: expected one of 'climbing', 'penalty', got 'stag'"):
        make_core("ClimbingGame-v0", 1, "cpu", game="stag")
    with pytest.raises(errors.ConfigError, match=r"penalty: expected a finite number <= 0.0, got 1.0"):
        make_core("ClimbingGame-v0", 1, "cpu", penalty=1.0)
