"""CFR+ against OpenSpiel's CFR+ and against known values of Kuhn poker and its restrictions."""

import pyspiel
import pytest
import torch
from exact_games import spiel_of, to_spiel, tree_of

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.exact.counterfactual_regret import solve_restricted_game
from league.exact.game_tree import GameTree
from league.game import Game

VALUES = {"kuhn": -1 / 18, "leduc": -0.0856}
"""Published values of the games for the first player."""


@pytest.mark.variations
@pytest.mark.parametrize("name", VALUES)
def test_equilibrium_of_whole_game_equals_openspiels_value(name):
    tree, game = tree_of(name), spiel_of(name)
    solution = solve_restricted_game(tree, tolerance=1e-3)
    assert solution.nash_conv <= 1e-3
    assert tree.nash_conv(solution.profile) == pytest.approx(solution.nash_conv, abs=1e-9)
    assert pyspiel.nash_conv(game, to_spiel(name, solution.profile).to_dict()) == pytest.approx(
        solution.nash_conv, abs=1e-9
    )
    assert float(tree.values(solution.profile)[0]) == pytest.approx(solution.value, abs=1e-9)
    solver = pyspiel.CFRPlusSolver(game)
    for _ in range(400 if name == "kuhn" else 100):
        solver.evaluate_and_update_policy()
    openspiel, value = solver.average_policy(), solution.value
    assert value == pytest.approx(VALUES[name], abs=1e-3)
    # the value lies between what either average policy guarantees
    assert value == pytest.approx(_value(game, openspiel), abs=pyspiel.nash_conv(game, openspiel) + 1e-3)


def _value(game, policy):
    return pyspiel.expected_returns(game.new_initial_state(), policy, -1, True)[0]


def test_restricted_equilibrium_uses_allowed_choices_only():
    """First players who must pass with every card lose more, but not to a response outside the restricted game."""
    tree = tree_of("kuhn")
    first = tree.legal[0].clone()
    start = tree.parent[0] == 0
    first[start, 1] = False  # no bet as the first action
    solution = solve_restricted_game(tree, [first, tree.legal[1]], tolerance=1e-4)
    assert not solution.profile[0][~first].any()
    assert solution.value == pytest.approx(-1 / 18, abs=1e-4)  # passing first is part of an equilibrium of Kuhn poker
    first = tree.legal[0].clone()
    first[start, 0] = False  # always bet
    solution = solve_restricted_game(tree, [first, tree.legal[1]], tolerance=1e-4)
    assert solution.nash_conv <= 1e-4
    assert solution.value == pytest.approx(-1 / 3, abs=1e-4)  # king: -2, queen: 0, jack: +1, of the opponent
    assert tree.nash_conv(solution.profile) > 0.1


def test_invalid_restrictions_raise_config_error():
    tree = tree_of("kuhn")
    none = [torch.zeros_like(tree.legal[0]), tree.legal[1]]
    with pytest.raises(ConfigError, match="seat 0: expected at least one legal choice"):
        solve_restricted_game(tree, none)
    with pytest.raises(ConfigError, match=r"expected a two-player zero-sum game, got KuhnPoker-v0"):
        solve_restricted_game(GameTree(Game.of("KuhnPoker-v0", {"num_players": 3})))
    with pytest.raises(GpuEnvsError, match=r"within 10 iterations, got .*; use a larger tolerance"):
        solve_restricted_game(tree, tolerance=1e-9, max_iterations=10)
