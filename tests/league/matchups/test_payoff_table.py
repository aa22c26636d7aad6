"""The payoff table: sums of episodes in, estimates with intervals and what to play next out."""

import math

import pytest
import torch

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.game import Game
from league.matchups.matchups import MatchupResults, scores
from league.matchups.payoff_table import PayoffTable

RPS = Game.of("RockPaperScissors-v0")
KUHN = Game.of("KuhnPoker-v0")


def results(*earned: list[list[float]]) -> MatchupResults:
    """Return results of matchups; each is a list of episodes with the returns of the seats."""
    returns = [torch.tensor(rows, dtype=torch.float64) for rows in earned]
    return MatchupResults(
        torch.tensor([len(rows) for rows in returns]),
        torch.stack([rows.sum(0) for rows in returns]),
        torch.stack([rows.square().sum(0) for rows in returns]),
        torch.stack([scores(rows).sum(0) for rows in returns]),
    )


def test_mean_variance_and_interval_are_those_of_the_episodes():
    table = PayoffTable(KUHN, {"player_0": 2, "player_1": 3})
    assert table.mean.shape == (2, 2, 3)
    assert table.mean.isnan().all()
    assert table.half_width.isinf().all()
    table.add([[1, 2]], results([[1, -1], [2, -2]]))
    table.add([[1, 2]], results([[-1, 1], [0, 0]]))
    assert table.count[1, 2] == 4
    assert table.mean[:, 1, 2].tolist() == [0.5, -0.5]
    torch.testing.assert_close(table.variance[0, 1, 2].item(), 5.0 / 3.0)
    torch.testing.assert_close(table.half_width[0, 1, 2].item(), 3.182446 * math.sqrt(5.0 / 12.0), rtol=1e-6, atol=0.0)
    assert table.win_rate()[1, 2] == (1 + 1 + 0 + 0.5) / 4
    assert table.score[1, 1, 2] == 1.5 / 4
    assert table.meta_game()[0].isnan().sum() == 5
    table.add([[4, 0]], results([[1, -1]]))
    assert table.shape == (5, 3)
    assert table.count[1, 2] == 4
    assert table.half_width[0, 4, 0] == math.inf


def test_seats_of_one_population_share_their_cells():
    table = PayoffTable(RPS, {"player": 3})
    table.add([[2, 0]], results([[1, -1], [1, -1]]))
    table.add([[0, 2]], results([[1, -1]]))
    assert table.count[0, 2] == table.count[2, 0] == 3
    torch.testing.assert_close(table.mean[:, 2, 0], torch.tensor([1 / 3, -1 / 3], dtype=torch.float64))
    torch.testing.assert_close(table.mean[:, 0, 2], torch.tensor([-1 / 3, 1 / 3], dtype=torch.float64))
    torch.testing.assert_close(table.win_rate()[2, 0].item(), 2 / 3)
    assert table.mean[:, 1, 1].tolist() == [0.0, 0.0]  # known: symmetric and zero-sum
    assert table.win_rate()[1, 1] == 0.5
    assert table.half_width[0, 1, 1] == 0.0
    assert table.missing(3)[0].tolist() == [[0, 1], [1, 2]]


def test_equal_policies_in_two_seats_have_equal_payoffs():
    game = Game(RPS.env_id, RPS.seats, RPS.env, zero_sum=False)
    table = PayoffTable(game, {"player": 1})
    assert table.missing(3)[0].tolist() == [[0, 0]]
    table.add([[0, 0]], results([[3, 1], [1, 1]]))
    assert table.mean[:, 0, 0].tolist() == [1.5, 1.5]


def test_three_seats_of_one_population_share_their_cells():
    coordination = [[[1, 1, 1], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]], [[[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [1, 1, 1]]]
    game = Game.of(
        "MatrixGame-v0", {"payoff": coordination}, shared=True, roles={f"p{i}": (f"player_{i}",) for i in range(3)}
    )
    table = PayoffTable(game, {"p": 3})
    table.add([[2, 0, 1]], results([[5, 3, 4]]))
    assert table.mean[:, 0, 1, 2].tolist() == [3, 4, 5]
    assert table.mean[:, 1, 2, 0].tolist() == [4, 5, 3]
    table.add([[1, 0, 1]], results([[5, 3, 4]]))
    assert table.mean[:, 1, 1, 0].tolist() == [4.5, 4.5, 3]
    assert len(table.missing(1)[0]) == 10 - 2


def test_zero_sum_seats_have_one_estimate():
    table = PayoffTable(KUHN)
    table.add([[0, 0]], results([[1.0, -1.1], [2.0, -2.1]]))
    torch.testing.assert_close(table.mean[:, 0, 0].tolist(), [1.55, -1.55])
    assert table.variance[0, 0, 0] == table.variance[1, 0, 0]


def test_missing_cells_are_those_without_enough_episodes_or_too_wide():
    table = PayoffTable(KUHN, {"player_0": 2, "player_1": 2})
    matchups, episodes = table.missing(10)
    assert matchups.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert episodes.tolist() == [10] * 4
    table.add([[0, 0], [0, 1], [1, 0]], results([[1, -1]] * 10, [[1, -1], [-1, 1]] * 5, [[1, -1]] * 4))
    matchups, episodes = table.missing(10)
    assert matchups.tolist() == [[1, 0], [1, 1]]
    assert episodes.tolist() == [6, 10]
    assert table.missing(10, 0.8)[0].tolist() == [[1, 0], [1, 1]]
    matchups, episodes = table.missing(10, 0.5)  # half-width 0.75 of 10 episodes with variance 10/9
    assert matchups.tolist() == [[0, 1], [1, 0], [1, 1]]
    assert episodes.tolist() == [math.ceil(10 / 9 * (1.96 / 0.5) ** 2) - 10, 6, 10]
    assert table.missing(10, 0.01)[1].tolist() == [30, 6, 10]
    assert table.missing(1, 0.5)[1].tolist()[-1] == 1
    with pytest.raises(ConfigError, match="episodes >= 1"):
        table.missing(0)


def test_payoff_that_is_nan_raises_with_its_matchup():
    table = PayoffTable(KUHN, {"player_0": 2, "player_1": 2})
    with pytest.raises(GpuEnvsError, match=r"KuhnPoker-v0: matchup \(1, 0\): .*finite payoffs, got a total of \[nan"):
        table.add([[0, 0], [1, 0]], results([[1, -1]], [[math.nan, 0]]))
    assert table.count.sum() == 0


def test_unknown_role_raises_config_error():
    with pytest.raises(ConfigError, match="expected a role among player_0, player_1, got 'runner'"):
        PayoffTable(KUHN, {"runner": 1})
