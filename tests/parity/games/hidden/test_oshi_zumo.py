"""OshiZumo-v0 against OpenSpiel 2.0.2's oshi_zumo: every history of a small game, random games of all settings."""

import pytest
import torch

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core
from parity.references import spiel

GAMES = 10_000


def name_of(settings):
    """Return OpenSpiel's name of a game with these settings."""
    return f"oshi_zumo({','.join(f'{name}={value}' for name, value in settings.items())})"


SMALL = {"coins": 5, "size": 1, "horizon": 3}
LARGE = [
    {},
    {"coins": 4, "size": 1, "horizon": 3, "alesia": True},
    {"coins": 50, "size": 3, "horizon": 6, "min_bid": 3},
    {"coins": 17, "size": 0, "min_bid": 17},
    {"coins": 30, "size": 5, "horizon": 40, "min_bid": 2, "alesia": True},
    {"coins": 8, "size": 1, "min_bid": 1, "alesia": True},
]


def test_all_histories_of_a_small_game_equal_the_reference():
    compared = spiel.all_histories("OshiZumo-v0", name_of(SMALL), **SMALL)
    assert len(compared.states) > 100
    assert len(compared.results) == 3


@pytest.mark.parametrize(
    ("settings", "games"),
    [
        (LARGE[0], GAMES // 20),
        *(pytest.param(case, GAMES, marks=pytest.mark.slow) for case in LARGE),
    ],
    ids=str,
)
def test_random_games_equal_the_reference(settings, games):
    compared = spiel.random_games("OshiZumo-v0", name_of(settings), games, **settings)
    assert len(compared.states) == games
    assert compared.decisions >= games
    assert len(compared.results) >= 2 - (settings.get("min_bid") == 17)


def test_player_below_the_lowest_bid_bids_all_coins():
    core = make_core("OshiZumo-v0", 1, "cpu", autoreset="disabled", **LARGE[2])
    core.reset()
    core.step(torch.tensor([[48, 3]]))
    assert core.action_mask[0, 0].nonzero().flatten().tolist() == [2]
    assert core.action_mask[0, 1].nonzero().flatten().tolist() == list(range(3, 48))
    state = core.get_state()
    for bids, agent in (((1, 47), "left_0"), ((3, 47), "left_0"), ((2, 2), "right_0"), ((2, 48), "right_0")):
        core.set_state(state)
        with pytest.raises(errors.ActionError, match=f"{agent} in world 0 is illegal"):
            core.step(torch.tensor([bids]))
        assert core.world_state["coins"].ge(0).all()
    core.set_state(state)
    core.step(torch.tensor([[2, 47]]))
    assert core.world_state["bid"].tolist() == [[2, 47]]


@pytest.mark.parametrize(("alesia", "inside"), [(False, 1.0), (True, 0.0)])
def test_wrestler_inside_the_field_decides_only_without_alesia(alesia, inside):
    """Player 0 pushes the wrestler off the field in the first world, and to the last position on it in the other."""
    core = make_core("OshiZumo-v0", 2, "cpu", horizon=4, alesia=alesia, autoreset="disabled")
    core.reset()
    for step in range(4):
        _, reward, terminated, _, _ = core.step(torch.tensor([[2, 1], [2, 1 if step else 2]]))
        assert terminated.all() == (step == 3)
    assert core.world_state["position"].tolist() == [8, 7]
    assert reward.tolist() == [[1.0, -1.0], [inside, -inside]]


def test_limit_of_a_caller_truncates_before_the_horizon():
    core = make_core("OshiZumo-v0", 1, "cpu", max_episode_steps=2, autoreset="disabled")
    core.reset()
    for step in range(2):
        _, reward, terminated, truncated, _ = core.step(torch.tensor([[2, 1]]))
        assert truncated.all() == (step == 1)
    assert not terminated.any()
    assert not reward.any()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"coins": 5, "min_bid": 6}, "min_bid: expected at most coins = 5, got 6; lower min_bid"),
    ],
)
def test_bad_settings_raise_one_line(settings, words):
    with pytest.raises(errors.ConfigError, match=words) as raised:
        make_core("OshiZumo-v0", 1, "cpu", **settings)
    assert "\n" not in str(raised.value)
