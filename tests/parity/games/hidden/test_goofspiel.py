"""Goofspiel-v0 against OpenSpiel 2.0.2's goofspiel: every history of small games, random games of all settings."""

import math
from itertools import product

import pytest
import torch

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core
from parity.references import spiel


def deal(fields, world, state):
    """Return OpenSpiel's next point card."""
    return fields["order"][world, spiel.chances(state)]


def name_of(settings):
    """Return OpenSpiel's name of a game with these settings."""
    return f"goofspiel({','.join(f'{name}={value}' for name, value in settings.items())})"


SMALL = (
    {"num_cards": 4, "points_order": "descending", "imp_info": True},
    {"num_cards": 3, "points_order": "random", "returns_type": "total_points", "imp_info": True, "egocentric": True},
    {"num_cards": 4, "points_order": "ascending", "returns_type": "point_difference"},
    {"num_cards": 3, "points_order": "random", "players": 3, "returns_type": "total_points", "imp_info": True},
    {"num_cards": 4, "num_turns": 2, "points_order": "random"},
)


def cases(settings, quick):
    """Return cases, of which only the first ones are quick: each setting compiles kernels."""
    return [
        pytest.param(case, marks=[pytest.mark.slow] * (index >= quick), id=name_of(case))
        for index, case in enumerate(settings)
    ]


@pytest.mark.parametrize("settings", cases(SMALL, 2))
def test_all_histories_equal_the_reference(settings):
    random = settings["points_order"] == "random"
    start = "order" if random else ""
    compared = spiel.all_histories("Goofspiel-v0", name_of(settings), start, deal, **settings)
    cards, turns = settings["num_cards"], settings.get("num_turns", settings["num_cards"])
    deals = math.perm(cards, turns) if random else 1
    joint = math.prod((cards - turn) ** settings.get("players", 2) for turn in range(turns))
    assert len(compared.states) == deals * joint
    assert len(compared.starts) == deals * random
    assert not random or spiel.uniform(compared.starts)
    assert all(len(obs) == 1 for obs in compared.views.values())  # an information state has one observation
    if settings.get("imp_info"):
        assert len({(player, view) for (player, _), obs in compared.views.items() for view in obs}) == len(
            compared.views
        )
    assert len(compared.results) >= 3


ORDERS, RETURNS = ("random", "descending", "ascending"), ("win_loss", "point_difference", "total_points")
LARGE = [
    {},
    {"num_cards": 11, "points_order": "descending", "returns_type": "point_difference", "imp_info": True},
    {"num_cards": 6, "num_turns": 3, "players": 4, "imp_info": True, "egocentric": True},
    {"num_cards": 9, "points_order": "ascending", "returns_type": "total_points", "imp_info": True},
    {"num_cards": 31, "num_turns": 7, "imp_info": True},
    {"num_cards": 5, "players": 10, "points_order": "descending"},
]


@pytest.mark.parametrize(
    ("settings", "games"),
    [(LARGE[0], 250), *(pytest.param(case, 10_000 // len(LARGE) + 1, marks=pytest.mark.slow) for case in LARGE)],
    ids=str,
)
def test_random_games_equal_the_reference(settings, games):
    compared = spiel.random_games("Goofspiel-v0", name_of(settings), games, deal, **settings)
    assert len(compared.states) == games
    assert compared.decisions >= 3 * games
    assert len(compared.results) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [dict(zip(("points_order", "returns_type"), pair, strict=True)) for pair in product(ORDERS, RETURNS)],
    ids=name_of,
)
@pytest.mark.parametrize("hidden", [{}, {"imp_info": True}, {"imp_info": True, "egocentric": True}], ids=str)
def test_random_games_of_all_kinds_equal_the_reference(settings, hidden):
    settings = {**settings, **hidden, "num_cards": 8}
    compared = spiel.random_games("Goofspiel-v0", name_of(settings), 1_200, deal, seed=1, **settings)
    assert len(compared.states) == 1_200


def test_one_turn_less_than_cards_ends_the_game():
    """OpenSpiel 2.0.2 plays the last cards for the same point card again, and never ends such a game."""
    settings = {"players": 3, "num_cards": 3, "num_turns": 2, "returns_type": "point_difference"}
    core = make_core("Goofspiel-v0", 1, "cpu", points_order="ascending", autoreset="disabled", **settings)
    core.reset()
    core.step(torch.tensor([[2, 1, 0]]))
    _, reward, terminated, _, _ = core.step(torch.tensor([[0, 2, 1]]))
    assert terminated.all()
    assert core.world_state["points"].tolist() == [[1, 2, 0]]
    assert reward.tolist() == [[0.0, 1.0, -1.0]]  # points less the mean of all players


def test_hidden_bids_do_not_reach_the_other_player():
    """Two worlds differ in the bid of player 1 only, which loses in both."""
    core = make_core("Goofspiel-v0", 2, "cpu", **SMALL[0])
    core.reset()
    core.step(torch.tensor([[3, 1], [3, 2]]))
    assert torch.equal(core.obs[0, 0], core.obs[1, 0])
    assert not torch.equal(core.obs[0, 1], core.obs[1, 1])


def test_card_that_was_played_raises():
    core = make_core("Goofspiel-v0", 1, "cpu", seed=0, **SMALL[0])
    core.reset()
    core.step(torch.tensor([[3, 0]]))
    assert core.action_mask[0].tolist() == [[True, True, True, False], [False, True, True, True]]
    with pytest.raises(errors.ActionError, match="player_0 in world 0 is illegal"):
        core.step(torch.tensor([[3, 1]]))
    core.reset()
    with pytest.raises(errors.ActionError, match="player_1 in world 0 is out of range"):
        core.step(torch.tensor([[1, 4]]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_cards": 4, "num_turns": 5}, "num_turns: expected -1 or 1 to num_cards = 4, got 5; use fewer turns"),
        ({"num_turns": 0}, "num_turns: expected -1 or 1 to num_cards = 13, got 0"),
    ],
)
def test_bad_settings_raise_one_line(settings, words):
    with pytest.raises(errors.ConfigError, match=words) as raised:
        make_core("Goofspiel-v0", 1, "cpu", **settings)
    assert "\n" not in str(raised.value)
