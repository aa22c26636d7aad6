"""VMASFootball-v0: recorded transitions of VMAS 1.5.2, starts and settings.

``make test-parity`` plays the original itself with other settings, see tests/libraries/test_vmas.py.
"""

import pytest
import torch

from docs.scripts import tables
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity.traces import recorded
from parity.vmas.vmas_replay import TRACE, assert_uniform, replay, traces_of

TOLERANCE = 2e-5
SELF_PLAY = {"ai_red_agents": False}


@pytest.mark.variations
@pytest.mark.parametrize("index", traces_of("football"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "football"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["ends"] > 0
    assert counts["rewards"] >= 5 if settings.get("dense_reward") is False else counts["rewards"] > 40


def test_players_start_in_their_halves():
    core = make_core("VMASFootball-v0", 20_000, "cpu", seed=3)
    core.reset()
    pos = core.world_state["pos"]
    center = torch.tensor([0.5 * 1.5 - 0.025, 0.0])
    assert_uniform((pos[:, 1] + center) / torch.tensor([0.75, 0.75]), 1.0)
    assert_uniform((pos[:, 4] - center) / torch.tensor([0.75, 0.75]), 1.0)
    assert not pos[:, 6].any(), "the ball is in the middle"
    numbers = core.world_state["noise"]
    assert torch.allclose(numbers.mean((0, 1)), torch.zeros(12), atol=0.02)
    assert torch.allclose(numbers.std((0, 1)), torch.ones(12), atol=0.02)


def test_formations_are_columns_before_the_goals():
    """Two columns and a half of five players, 1.6 m from the middle to the backs of the goals."""
    settings = {"n_blue_agents": 5, "n_red_agents": 5, "spawn_in_formation": True, "only_blue_formation": False}
    pos = starts(formation_noise=0.0, **settings)[0]
    expected = torch.tensor([[-0.4, 0.25], [-0.4, -0.25], [-0.8, 0.25], [-0.8, -0.25], [-1.2, 0.0]])
    assert torch.allclose(pos[:5], expected, atol=1e-6)
    assert torch.allclose(pos[5:10], expected * torch.tensor([-1.0, 1.0]), atol=1e-6)
    assert_uniform(starts(20_000, **settings)[:, 8] - pos[8], 0.1)
    drawn = starts(20_000, formation_noise=0.0, randomise_formation_indices=True, **settings)
    assert torch.equal(drawn[:, :5].sort(1).values[:100], pos[:5].sort(0).values.expand(100, 5, 2))
    shares = [(drawn[:, 1] == place).all(-1).double().mean() for place in expected.unique(dim=0)]
    assert sum(shares) == pytest.approx(1.0, abs=0.01)
    assert max(abs(share - 0.2) for share in shares) < 0.015


def starts(worlds=1, **settings):
    """Return the places of players after a reset, (E, N, 2)."""
    core = make_core("VMASFootball-v0", worlds, "cpu", seed=5, **settings)
    core.reset()
    return core.world_state["pos"]


def test_teams_that_learn_are_mirror_images():
    """Red agents in mirrored places that take the same actions see and earn the same as blue ones."""
    core = make_core("VMASFootball-v0", 50, "cpu", seed=1, **SELF_PLAY)
    core.reset()
    pos = core.world_state["pos"]
    pos[:, 3:6] = pos[:, :3] * torch.tensor([-1.0, 1.0])
    for name in ("ball_to_goal", "agent_to_ball"):
        core.world_state[name][:, 1] = core.world_state[name][:, 0]
    for _ in range(20):
        actions = core.sample_actions()
        actions[:, 3:] = actions[:, :3]
        obs, reward, *_ = core.step(actions)
        assert torch.allclose(obs[:, :3], obs[:, 3:], atol=1e-5)
        assert torch.allclose(reward[:, :3], reward[:, 3:], atol=1e-3)


def test_strong_scripted_players_win_against_random_ones():
    shares = []
    for strength in (1.0, 0.3):
        core = make_core(
            "VMASFootball-v0", 64, "cpu", seed=0, autoreset="disabled", max_steps=300, ai_strength=strength
        )
        core.reset()
        score = torch.zeros(64)
        for _ in range(300):
            core.step(core.sample_actions())
            score += core.world_state["score"][:, 0] * core.valid[:, 0]
        shares.append(float((score < 0).double().mean()))
    assert shares[0] > 0.8
    assert shares[1] < shares[0]


def test_sparse_rewards_of_equal_teams_sum_to_zero():
    assert make_core("VMASFootball-v0", 1, "cpu", dense_reward=False, **SELF_PLAY).definition.zero_sum
    assert not make_core("VMASFootball-v0", 1, "cpu", **SELF_PLAY).definition.zero_sum


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"physically_different": True}, "expected n_blue_agents=5, got 3"),
        ({"n_red_agents": 0, **SELF_PLAY}, "expected n_red_agents >= 1, got 0"),
        ({"goal_size": 1.5}, "goal_size: expected more than 0.05, the width of players and ball, and less than 1.45"),
        ({"ball_size": 0.2}, "goal_size: expected more than 0.4, the width of players and ball"),
        ({"physically_different": True, "n_blue_agents": 5, "u_multiplier": 0.05}, "expected u_multiplier > 0.05"),
        ({"n_red_agents": 5000}, "5000"),
        ({"ai_blue_agents": True}, "blue players are agents; only red ones may follow the script"),
        ({"u_shoot_multiplier": 1.0}, "enable_shooting"),
        ({"ai_strength": 0.5, **SELF_PLAY}, "ai_red_agents"),
    ],
)
def test_settings_that_do_not_fit_are_errors(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core("VMASFootball-v0", 1, "cpu", **settings)


def test_action_table():
    """The velocity changes in the direction of the row; forward is to the right for blue agents, left for red ones."""
    signs = {"nothing": 0.0, "backward": -1.0, "forward": 1.0, "down": -1.0, "up": 1.0}
    continuous, discrete = tables.action_tables("vmas/football")
    assert [row[0] for row in discrete] == list(range(9))
    core = make_core("VMASFootball-v0", 9, "cpu", seed=0, continuous_actions=False, **SELF_PLAY)
    core.reset()
    core.step(torch.arange(9)[:, None].expand(9, 6).clone())
    for index, horizontal, vertical in discrete:
        expected = torch.tensor([signs[horizontal], signs[vertical]])
        assert torch.equal(core.world_state["vel"][index, 0].sign(), expected)
        assert torch.equal(core.world_state["vel"][index, 3].sign(), expected * torch.tensor([-1.0, 1.0]))
    assert [row[0] for row in continuous] == [0, 1, 2, 3]
    space = make_core("VMASFootball-v0", 1, "cpu", enable_shooting=True).action_spaces["agent_blue_0"]
    assert space.shape == (4,)
