"""LiarsDice-v0 against OpenSpiel 2.0.2's liars_dice: every history of small dice, random games of all settings."""

import pytest
import torch

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core
from parity.references import spiel


def roll(fields, world, state):
    """Return OpenSpiel's next roll: the dice of player 0, then those of player 1."""
    return fields["dice"][world, spiel.chances(state)] - 1


def histories(**settings):
    """Compare every history and return the comparison and OpenSpiel's game string."""
    listed = ",".join(f"{name}={value}" for name, value in settings.items())
    name = f"liars_dice({listed})"
    return spiel.all_histories("LiarsDice-v0", name, "dice", roll, **settings), name


@pytest.mark.variations
@pytest.mark.parametrize("rule", ["reset-face", "reset-quantity"])
def test_all_histories_with_three_faces_equal_the_reference(rule):
    compared, name = histories(dice_sides=3, bidding_rule=rule)
    assert (compared.decisions + len(compared.states), len(compared.states)) == spiel.size_of(name) == (9 * 127, 9 * 63)
    assert spiel.uniform(compared.starts)
    assert all(len(obs) == 1 for obs in compared.views.values())  # an information state has one observation
    assert len(set().union(*compared.views.values())) == len(compared.views)  # and the reverse
    assert min(compared.results.values()) > 100


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["reset-face", "reset-quantity"])
def test_all_histories_of_the_default_dice_equal_the_reference(rule):
    compared, _ = histories(bidding_rule=rule)
    assert (compared.decisions + len(compared.states), len(compared.states)) == (36 * 8191, 36 * 4095)
    assert spiel.uniform(compared.starts)
    assert len(compared.views) == 6 * 4096
    assert len(set().union(*compared.views.values())) == len(compared.views)


SETTINGS = (
    {},
    {"numdice": 2, "dice_sides": 4, "bidding_rule": "reset-quantity"},
    {"numdice": 3, "dice_sides": 5},
    {"numdice": 5, "dice_sides": 6, "bidding_rule": "reset-quantity"},
)


@pytest.mark.parametrize(
    ("settings", "games"),
    [
        *((case, 400) for case in SETTINGS[:2]),
        *(pytest.param(case, 10_000 // len(SETTINGS), marks=pytest.mark.slow) for case in SETTINGS),
    ],
)
def test_random_games_equal_the_reference(settings, games):
    listed = ",".join(f"{name}={value}" for name, value in settings.items())
    compared = spiel.random_games("LiarsDice-v0", f"liars_dice({listed})", games, roll, **settings)
    assert len(compared.states) == games
    assert compared.decisions > 3 * games
    assert min(compared.results.values()) > games / 5


def test_dice_of_several_are_uniform_before_they_are_sorted():
    core = make_core("LiarsDice-v0", 32_000, "cpu", seed=3, **SETTINGS[1])
    core.reset()
    dice = core.world_state["dice"][:, :2] - 1
    assert (dice[:, 0] <= dice[:, 1]).all()
    count = torch.bincount(dice[:, 0] * 4 + dice[:, 1], minlength=16).view(4, 4)
    doubles = count.diagonal()
    assert abs(int(doubles.sum()) - 8_000) < 5 * (32_000 * 3 / 16) ** 0.5
    assert spiel.uniform(doubles.numpy())
    assert spiel.uniform(count[torch.triu_indices(4, 4, 1).unbind()].numpy())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"players": 3}, "players: expected 2, got 3"),
        ({"numdice": 6}, r"expected 2 \* numdice \* dice_sides <= 62, got 72; use fewer dice or faces"),
    ],
)
def test_bad_settings_raise_one_line(settings, words):
    with pytest.raises(errors.ConfigError, match=words) as raised:
        make_core("LiarsDice-v0", 1, "cpu", **settings)
    assert "\n" not in str(raised.value)


def test_illegal_bid_loses():
    core = make_core("LiarsDice-v0", 1, "cpu", seed=0, illegal_actions="loss", autoreset="disabled")
    core.reset()
    core.step(torch.tensor([[4, 0]]))
    _, reward, terminated, _, _ = core.step(torch.tensor([[0, 4]]))  # not higher
    assert reward.tolist() == [[1.0, -1.0]]
    assert terminated.all()
