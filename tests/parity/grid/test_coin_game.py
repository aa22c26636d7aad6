"""CoinGame-v0 against recorded steps of JaxMARL 0.2.0, compared exactly; ``make test-parity`` plays JaxMARL itself."""

import pytest
import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity import jax_replay

ENV = "CoinGame-v0"
RIGHT, LEFT, UP, DOWN, STAY = range(5)
SHORT = {"num_outer_steps": 3, "egocentric": True, "cnn": True}  # the kernels of the second trace


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize("index", range(len(jax_replay.TRACES[ENV])))
def test_recorded_steps_equal_the_original(index):
    rewards = jax_replay.replay(ENV, index)
    assert len(rewards) > 500
    assert min((rewards < 0).any(1).sum(), (rewards > 0).any(1).sum()) > 20


def at(players, coins, num_envs=1, **settings):
    """Return a core with worlds in a state."""
    core = make_core(ENV, num_envs, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    core.world_state["player"].copy_(torch.tensor(players).expand(num_envs, 2, 2))
    core.world_state["coin"].copy_(torch.tensor(coins).expand(num_envs, 2, 2))
    return core


@pytest.mark.parametrize(
    ("players", "coins", "rewards"),
    [
        (((0, 0), (2, 2)), ((0, 0), (1, 1)), (1, 0)),  # red takes red
        (((1, 1), (2, 2)), ((0, 0), (1, 1)), (1, -2)),  # red takes blue
        (((2, 2), (0, 0)), ((0, 0), (1, 1)), (-2, 1)),  # blue takes red
        (((0, 0), (0, 0)), ((0, 0), (1, 1)), (-1, 1)),  # both take red
        (((0, 0), (1, 1)), ((0, 0), (0, 0)), (2, -2)),  # red takes both
        (((0, 0), (0, 0)), ((0, 0), (0, 0)), (0, 0)),  # both take both
    ],
)
def test_coins_pay_by_color(players, coins, rewards):
    core = at(players, coins)
    assert core.step(torch.tensor([[STAY, STAY]]))[1].tolist() == [list(rewards)]


@pytest.mark.parametrize("shared", [False, True])
def test_rewards_follow_the_payoff_matrix_and_sharing(shared):
    """In the first world red takes red, then red takes blue, blue takes red, and blue takes blue."""
    players = (((0, 0), (2, 2)), ((1, 1), (2, 2)), ((2, 2), (0, 0)), ((2, 2), (1, 1)))
    matrix = ((1.0, 2.0, -4.0), (8.0, 16.0, -32.0))
    core = at(players, ((0, 0), (1, 1)), 4, payoff_matrix=matrix, shared_rewards=shared)
    rewards = core.step(torch.full((4, 2), STAY))[1].tolist()
    pairs = [[1, 0], [2, -32], [-4, 8], [0, 16]]
    assert rewards == ([[sum(pair)] * 2 for pair in pairs] if shared else pairs)


def test_torus_has_no_border():
    core = at(((0, 0), (2, 2)), ((1, 1), (1, 1)))
    core.step(torch.tensor([[DOWN, RIGHT]]))
    assert core.world_state["player"][0].tolist() == [[2, 0], [2, 0]]
    core.step(torch.tensor([[LEFT, UP]]))
    assert core.world_state["player"][0].tolist() == [[2, 2], [0, 0]]


def test_only_coins_that_were_taken_get_uniform_cells():
    core = at(((0, 0), (2, 2)), ((0, 0), (1, 1)), 20_000)
    core.step(torch.full((20_000, 2), STAY))
    coin = core.world_state["coin"].long()
    assert (coin[:, 1] == 1).all()
    shares = torch.bincount(coin[:, 0, 0] * 3 + coin[:, 0, 1], minlength=9) / 20_000
    assert (shares - 1 / 9).abs().max() < 0.01


def test_inner_episode_ends_without_reward_and_with_uniform_cells():
    core = at(((0, 0), (2, 2)), ((0, 0), (1, 1)), 20_000, num_inner_steps=1, **SHORT)
    *_, info = outcome = core.step(torch.full((20_000, 2), STAY))
    assert not outcome[1].any()
    assert not outcome[2].any()
    assert info["inner_episode_done"].all()
    assert info["own_coins"][:, 0].tolist() == [[1, 0, 0]] * 20_000
    for name in ("player", "coin"):
        for row in range(2):
            cells = core.world_state[name][:, row].long()
            shares = torch.bincount(cells[:, 0] * 3 + cells[:, 1], minlength=9) / 20_000
            assert (shares - 1 / 9).abs().max() < 0.01


def test_counts_and_length_of_an_episode():
    core = make_core(ENV, 64, "cpu", seed=0, num_inner_steps=4, autoreset="disabled", **SHORT)
    core.reset()
    for step in range(12):
        *_, terminated, truncated, info = core.step(core.sample_actions())
        assert terminated.all() == (step == 11)
        assert not truncated.any()
        assert info["inner_episode_done"].all() == (step % 4 == 3)
    assert core.world_state["convention_steps"].sum(1).tolist() == [12] * 64
    own_coins, other_coins = info["own_coins"], info["other_coins"]
    assert own_coins.shape == other_coins.shape == (64, 2, 3)
    assert min(own_coins.sum(), other_coins.sum()) > 100
    assert torch.equal(core.episode_results, torch.stack([own_coins.sum(-1), other_coins.sum(-1)], -1).float())
    core.reset()
    core.step(torch.full((64, 2), STAY))
    assert core.world_state["own_total"].max() <= 1, "a reset clears the totals"


@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_totals_are_counted_by_rewards(schedule):
    """With these payoffs a reward tells the color of the coin; a last step has none, but takes coins, too."""
    matrix = ((1.0, 100.0, 0.0), (100.0, 1.0, 0.0))
    settings = {"num_inner_steps": 6, "num_outer_steps": 1, "payoff_matrix": matrix}
    core = make_core(ENV, 64, "cpu", seed=0, schedule=schedule, **settings)
    core.reset()
    for _ in range(3):
        same_color, other_color = torch.zeros(2, 64, 2)
        for _ in range(5):
            _, reward, *_, info = core.step(core.sample_actions())
            same_color += reward % 100.0
            other_color += reward // 100.0
        assert torch.equal(info["own_coins_total"].float(), same_color)
        assert torch.equal(info["other_coins_total"].float(), other_color)
        assert min(same_color.sum(), other_color.sum()) > 30
        core.step(core.sample_actions())
        last = core.episode_results - torch.stack([same_color, other_color], -1)
        assert set(last.flatten().tolist()) == {0.0, 1.0}


def test_roles_are_single_players_unless_rewards_are_shared():
    core = make_core(ENV, 1, "cpu")
    assert core.definition.roles == {"player_0": ("player_0",), "player_1": ("player_1",)}
    assert core.definition.symmetric
    assert not make_core(ENV, 1, "cpu", shared_rewards=True).definition.roles
    assert not make_core(ENV, 1, "cpu", payoff_matrix=((1, 1, -2), (1, 2, -2))).definition.symmetric


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"payoff_matrix": ((1, 1), (1, 1))}, "payoff_matrix: expected two rows of three finite numbers"),
        ({"payoff_matrix": ((1, 1, float("nan")), (1, 1, -2))}, "payoff_matrix: expected two rows of three finite"),
        ({"num_inner_steps": 2**30, "num_outer_steps": 4}, "num_outer_steps: expected num_inner_steps"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core(ENV, 1, "cpu", **settings)
