"""DarkHex-v0 against OpenSpiel 2.0.2's dark_hex: every history of a board of 2 x 2, random games of all settings."""

import pytest
import torch

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core
from parity.references import spiel

GAMES = 10_000


def name_of(settings):
    """Return OpenSpiel's name of a game with these settings."""
    return f"dark_hex({','.join(f'{name}={value}' for name, value in settings.items())})"


SMALL = [
    {"board_size": 2, "gameversion": "adh", "obstype": "reveal-numturns"},
    {"board_size": 2, "gameversion": "cdh", "obstype": "reveal-nothing"},
]
LARGE = [
    {},
    {"num_rows": 4, "num_cols": 3, "gameversion": "adh", "obstype": "reveal-numturns"},
    {"gameversion": "adh"},
    {"obstype": "reveal-numturns"},
    {"num_rows": 2, "num_cols": 5, "gameversion": "adh"},
    {"board_size": 8},
]


@pytest.mark.variations
@pytest.mark.parametrize("settings", SMALL, ids=name_of)
def test_all_histories_of_a_small_board_equal_the_reference(settings):
    compared = spiel.all_histories("DarkHex-v0", name_of(settings), **settings)
    histories = compared.decisions + len(compared.states)
    assert (histories, len(compared.states)) == spiel.size_of(name_of(settings))
    assert all(len(obs) == 1 for obs in compared.views.values())  # an information state has one observation
    obs = {(player, view) for (player, _), views in compared.views.items() for view in views}
    if settings["obstype"] == "reveal-numturns":
        assert len(obs) == len(compared.views)
    else:  # OpenSpiel's string holds the number of tries in any case, its tensor does not
        assert len(obs) < len(compared.views)


@pytest.mark.parametrize(
    ("settings", "games"),
    [
        (LARGE[0], GAMES // 40),
        *(pytest.param(case, GAMES if case == {} else GAMES // 4, marks=pytest.mark.slow) for case in LARGE),
    ],
    ids=str,
)
def test_random_games_equal_the_reference(settings, games):
    games = games // 10 if settings.get("board_size", 3) > 4 else games
    compared = spiel.random_games("DarkHex-v0", name_of(settings), games, **settings)
    assert len(compared.states) == games
    assert compared.decisions > 6 * games
    # the sides of white are farther apart on 2 x 5 cells
    assert min(compared.results.values()) > games / (20 if settings.get("num_cols") != 5 else 200)
    assert set(compared.results) == {(1.0, -1.0), (-1.0, 1.0)}  # there is no draw


def test_only_the_winner_sees_the_winning_stone():
    core = make_core("DarkHex-v0", 1, "cpu", autoreset="disabled", **SMALL[0])
    core.reset()
    for mover, cell in ((0, 0), (1, 1), (0, 2)):  # black connects the left column
        action = torch.zeros(1, 2, dtype=torch.int64)
        action[0, mover] = cell
        _, reward, terminated, _, _ = core.step(action)
    assert terminated.all()
    assert reward.tolist() == [[1.0, -1.0]]
    cells = core.obs[0, :, :36].view(2, 4, 9)
    assert cells[0].argmax(-1).tolist() == [5, 4, 8, 4]
    assert cells[1].argmax(-1).tolist() == [4, 3, 4, 4]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_rows": 9, "num_cols": 8}, r"expected num_rows \* num_cols <= 64, got 9 \* 8; use a smaller board"),
    ],
)
def test_bad_settings_raise_one_line(settings, words):
    with pytest.raises(errors.ConfigError, match=words) as raised:
        make_core("DarkHex-v0", 1, "cpu", **settings)
    assert "\n" not in str(raised.value)
