"""TwoStepGame-v0 against the tables of Rashid et al. 2018, section 5."""

import itertools

import torch

from gpu_envs.runtime.factory import make_core

TABLES = ([[7, 7], [7, 7]], [[0, 1], [1, 8]])  # A, B
PLAYS = list(itertools.product(range(2), repeat=4))  # both choices of the first step, then of the second


def observation(index):
    """Return the observations of both players: stage (None: after the end) and own row."""
    stands = torch.zeros(3)
    if index is not None:
        stands[index] = 1.0
    return torch.cat([stands.expand(2, 3), torch.eye(2)], 1)


def test_all_histories_of_the_game():
    core = make_core("TwoStepGame-v0", len(PLAYS), "cpu", autoreset="disabled")
    plays = torch.tensor(PLAYS)
    obs, _ = core.reset()
    assert torch.equal(obs, observation(0).expand_as(obs))
    obs, reward, terminated, truncated, _ = core.step(plays[:, :2])
    assert not (reward.any())
    assert not (terminated.any())
    assert not truncated.any()
    for world, (table, *_) in enumerate(PLAYS):
        assert torch.equal(obs[world], observation(1 + table))
    obs, reward, terminated, truncated, info = core.step(plays[:, 2:])
    assert reward.tolist() == [[float(TABLES[table][row][column])] * 2 for table, _, row, column in PLAYS]
    assert terminated.all()
    assert not truncated.any()
    assert torch.equal(info["episode_return"], reward)
    assert torch.equal(info["final_obs"], observation(None).expand_as(obs))


def test_optimum_is_8_in_table_b():
    core = make_core("TwoStepGame-v0", len(PLAYS), "cpu")
    plays = torch.tensor(PLAYS)
    core.reset()
    core.step(plays[:, :2])
    *_, info = core.step(plays[:, 2:])
    total = info["episode_return"][:, 0]
    assert total.max() == 8.0
    best = [play for play, won in zip(PLAYS, total.tolist(), strict=True) if won == 8.0]
    assert best == [(1, 0, 1, 1), (1, 1, 1, 1)]
    assert total[plays[:, 0] == 0].eq(7.0).all()


def test_second_episode_starts_fresh():
    """After an autoreset the next first step chooses the table again."""
    core = make_core("TwoStepGame-v0", 1, "cpu")
    core.reset()
    for table, payoff in ((1, 8.0), (0, 7.0), (1, 8.0)):
        obs, *_ = core.step(torch.tensor([[table, 0]]))
        assert torch.equal(obs[0], observation(1 + table))
        obs, reward, *_ = core.step(torch.tensor([[1, 1]]))
        assert reward.tolist() == [[payoff] * 2]
        assert torch.equal(obs[0], observation(0))
