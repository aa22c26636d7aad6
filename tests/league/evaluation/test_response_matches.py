"""Episodes of responses against a mixture: each response plays its own seat, and returns are attributed to it."""

import torch
from always import PURE

from league.evaluation import response_matches
from league.evaluation.payoff_filler import PayoffSamplingConfig
from league.evaluation.response_matches import play_responses
from league.evaluation.tabular_game import TabularGame
from league.executors.tasks import LocalExecutor
from league.game import Game
from league.solvers import MetaStrategy

RPS = Game.of("RockPaperScissors-v0", {"num_repetitions": 1})
ROCK, PAPER, SCISSORS = PURE
SAMPLING = PayoffSamplingConfig(50, None, "cpu", 1024)


def only(index):
    return torch.nn.functional.one_hot(torch.tensor(index), 3).double()


def played(mixture, responses, sampling, seed=0, **settings):
    pools = {"player": PURE}
    return play_responses(RPS, pools, mixture, "some/key", responses, sampling, LocalExecutor(), seed, **settings)


def test_returns_are_those_of_each_response_and_seat():
    mixture = MetaStrategy((only(0), only(1)))  # rock in the first seat, paper in the second
    responses = [[ROCK, ROCK], [PAPER, SCISSORS], [SCISSORS, PAPER]]
    mean, error, base, base_error = played(mixture, responses, SAMPLING)
    assert mean.tolist() == [[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]]
    assert base.tolist() == [-1.0, 1.0]
    assert not error.any()
    assert not base_error.any()


def test_mixture_is_not_played_if_it_is_not_wanted(monkeypatch):
    totals = []
    task = response_matches.payoff_task
    monkeypatch.setattr(
        response_matches, "payoff_task", lambda *arguments: totals.append(arguments[4].sum()) or task(*arguments)
    )
    mixture = MetaStrategy((only(0), only(1)))
    mean, _, base, _ = played(mixture, [[PAPER, SCISSORS]], SAMPLING, with_mixture=False)
    assert mean.tolist() == [[0.0, -1.0]]
    assert bool(base.isnan().all())
    assert totals == [2 * 50]


def test_standard_error_is_that_of_the_episodes():
    half = torch.tensor([0.5, 0.5, 0.0])
    sampling = PayoffSamplingConfig(2_000, None, "cpu", 2048)
    mean, error, *_ = played(MetaStrategy((half, half)), [[ROCK, PAPER]], sampling, seed=3)
    for seat, sign in enumerate((-1, 1)):  # rock draws or loses, paper wins or draws, each with probability 1/2
        assert abs(float(mean[0, seat]) - sign / 2) < 4 * 0.5 / 2_000**0.5
        assert abs(float(error[0, seat]) / (0.5 / 2_000**0.5) - 1) < 0.05


def test_exact_gains_use_the_joint_distribution():
    tabular = TabularGame.of(RPS, required=True)
    tree = tabular.tree
    pools = {
        "player": [tabular.policy("player", [only(i).expand_as(tree.uniform(s)) for s in range(2)]) for i in range(3)]
    }
    wins = torch.zeros((3, 3), dtype=torch.float64)
    for mine, other in ((0, 2), (1, 0), (2, 1)):  # the first seat always wins
        wins[mine, other] = 1 / 3
    uniform = [torch.full((3,), 1 / 3, dtype=torch.float64)] * 2
    torch.testing.assert_close(torch.tensor(tabular.gains(pools, uniform, wins)), torch.tensor([-1.0, 1.0]))
    torch.testing.assert_close(torch.tensor(tabular.gains(pools, uniform)), torch.zeros(2))
    torch.testing.assert_close(torch.tensor(tabular.gains(pools, [only(0), only(1)])), torch.tensor([2.0, 0.0]))
