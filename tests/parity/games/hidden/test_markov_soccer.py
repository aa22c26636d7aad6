"""MarkovSoccer-v0 against OpenSpiel 2.0.2's markov_soccer: random games of all settings, moves set by hand."""

import itertools

import pytest
import torch

from gpu_envs import errors
from gpu_envs.envs.games.hidden.markov_soccer import Config, sizes_of
from gpu_envs.runtime.factory import make_core
from parity.references import spiel

GAMES = 10_000


def outcome(fields, world, state):
    """Return OpenSpiel's next chance outcome: the place of the ball, then the player whose move is resolved first."""
    if spiel.chances(state):
        return fields["first"][world]
    game = state.get_game().get_parameters()
    text = game["grid"].replace("\n", "")
    return 2 + text[: fields["ball"][world]].count("O")


def played(games, seed=0, **settings):
    """Compare random games."""
    listed = ",".join(f"{name}={value}" for name, value in settings.items())
    return spiel.random_games("MarkovSoccer-v0", f"markov_soccer({listed})", games, outcome, seed, **settings)


LARGE = [
    {"horizon": 30},
    {"horizon": 25, "grid": "A.O\n..B\nO..\n..."},
    {"horizon": 400, "grid": "AO.\n.O.\n..B"},
    {"horizon": 40, "grid": ".A.BO....\n........."},
    {"horizon": 2},
]


@pytest.mark.parametrize(
    ("settings", "games"),
    [
        (LARGE[0], GAMES // 40),
        *(pytest.param(case, GAMES if case["horizon"] <= 40 else 500, marks=pytest.mark.slow) for case in LARGE),
        pytest.param({}, 200, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_random_games_equal_the_reference(settings, games):
    compared = played(games, **settings)
    assert len(compared.states) == games
    if settings.get("horizon", 1000) > 2:
        drawn = settings.get("horizon", 1000) <= 40  # a draw is rare in long games
        assert set(compared.results) - {(0.0, 0.0)} == {(1.0, -1.0), (-1.0, 1.0)}
        assert ((0.0, 0.0) in compared.results) or not drawn
        # OpenSpiel's own random players score rarely on the long grid: a in 1 % of the games
        assert min(compared.results[1.0, -1.0], compared.results[-1.0, 1.0]) > games / 200


def test_both_orders_are_equally_frequent_in_every_step():
    core = make_core("MarkovSoccer-v0", 10_000, "cpu", seed=0, autoreset="disabled")
    core.reset()
    previous = torch.zeros(10_000)
    for _ in range(3):
        core.step(torch.full((10_000, 2), 4))
        first = core.world_state["first"].float()
        assert abs(float(first.mean()) - 0.5) < 5 * 0.5 / 10_000**0.5
        assert abs(float((first == previous).float().mean()) - 0.5) < 5 * 0.5 / 10_000**0.5
        previous = first
    assert abs(float((core.world_state["ball"] == 7).float().mean()) - 0.5) < 5 * 0.5 / 10_000**0.5


def test_rows_of_the_grid_may_be_apart_by_bars():
    assert sizes_of(Config(grid="A.O|..B|O..")) == sizes_of(Config(grid="A.O\n..B\nO..\n"))


MOVES = {"up": 0, "down": 1, "left": 2, "right": 3, "stand": 4}


def after(grid, moves, first, holder=-1):
    """Return the state, rewards and end after moves that are resolved in this order.

    Places on the grid, three rows of three cells, are set by hand: every other grid compiles its own kernels.
    """
    cells = grid.replace("\n", "")
    for seed in itertools.count():
        core = make_core("MarkovSoccer-v0", 1, "cpu", seed=seed, grid="A..\n.O.\n..B", autoreset="disabled")
        core.reset()
        core.world_state["cell"].copy_(torch.tensor([[cells.index("A"), cells.index("B")]]))
        core.world_state["ball"].fill_(cells.index("O"))
        core.world_state["holder"].fill_(holder)
        _, reward, terminated, _, _ = core.step(torch.tensor([[MOVES[move] for move in moves]]))
        if core.world_state["first"] == first:
            state = {name: tensor[0].tolist() for name, tensor in core.world_state.items()}
            return state, reward[0].tolist(), bool(terminated.all())
    raise AssertionError


def test_player_that_runs_into_the_other_loses_the_ball():
    state, _, ended = after("AB.\n..O\n...", ("right", "stand"), 0, holder=0)
    assert (state["holder"], state["cell"], ended) == (1, [0, 1], False)
    state, _, _ = after("AB.\n..O\n...", ("right", "right"), 1, holder=0)  # player 1 has left
    assert (state["holder"], state["cell"]) == (0, [1, 2])


def test_both_players_want_the_ball_and_the_first_takes_it():
    for first in range(2):
        state, _, _ = after("AOB\n...\n...", ("right", "left"), first)
        # the second runs into the first, who has the ball already
        assert state["holder"] == first
        assert state["cell"][first] == 1


def test_goal_ends_the_game_and_the_other_player_still_moves():
    state, reward, ended = after("..O\n.BA\n...", ("right", "right"), 0, holder=0)
    assert (reward, ended) == ([1.0, -1.0], True)
    assert (state["scorer"], state["cell"][1]) == (0, 5)
    _, reward, ended = after("B.O\n.A.\n...", ("stand", "left"), 0, holder=1)  # row 0 has no goal
    assert (reward, ended) == ([0.0, 0.0], False)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"grid": ""}, "grid: expected lines of equal length with at most 4096 cells, got lengths 0; use a text such"),
        ({"grid": "AB\nO"}, "grid: expected lines of equal length with at most 4096 cells, got lengths 2x1"),
        ({"grid": "AB.."}, "grid: expected one 'A', one 'B', some 'O' and '.', got 2 '.', 1 'A', 1 'B', 0 'O'"),
        ({"grid": "AABO"}, "grid: expected one 'A'.* got 2 'A', 1 'B', 1 'O'"),
        ({"grid": "ABOx"}, "grid: expected one 'A'.* 1 'x'"),
    ],
)
def test_bad_settings_raise_one_line(settings, words):
    with pytest.raises(errors.ConfigError, match=words) as raised:
        make_core("MarkovSoccer-v0", 1, "cpu", **settings)
    assert "\n" not in str(raised.value)
