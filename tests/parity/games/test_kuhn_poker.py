"""KuhnPoker-v0 against OpenSpiel 2.0.2's kuhn_poker: every deal, every betting."""

import numpy as np
import pyspiel
import pytest
import torch

from gpu_envs.runtime.factory import make_core
from parity.references import spiel

SIZES = {2: (54, 30), 3: (600, 312), 4: (7800, 3960)}
"""Histories without chance nodes, and terminal ones, by number of players."""


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize("players", SIZES)
def test_all_histories_equal_the_reference(players):
    deals = spiel.deals_of(players + 1, players)
    theirs = f"kuhn_poker(players={players})"
    tree, _ = spiel.walk_all("KuhnPoker-v0", theirs, deals, num_players=players)
    assert (len(tree.histories), len(tree.terminals)) == SIZES[players] == spiel.size_of(theirs)
    assert tree.deciding > len(tree.histories) / 2


def test_random_games_of_ten():
    """More players than trees are walked for: every position of 60 games."""
    core = make_core("KuhnPoker-v0", 60, "cpu", seed=2, num_players=10, autoreset="disabled")
    core.reset()
    game, states = pyspiel.load_game("kuhn_poker(players=10)"), []
    for cards in core.world_state["card"].tolist():
        states.append(game.new_initial_state())
        for card in cards:
            states[-1].apply_action(card)
    playing = list(range(60))
    while playing:
        for world in playing:
            expected = [states[world].information_state_tensor(player) for player in range(10)]
            np.testing.assert_array_equal(core.obs[world], np.array(expected, np.float32))
            mover = states[world].current_player()
            assert core.to_move[world].nonzero().flatten().tolist() == [mover]
            assert core.action_mask[world, mover].tolist() == [bool(ok) for ok in states[world].legal_actions_mask()]
        action = core.sample_actions()
        _, reward, terminated, _, _ = core.step(action)
        for world in playing:
            states[world].apply_action(int(action[world, states[world].current_player()]))
            assert terminated[world].tolist() == [states[world].is_terminal()] * 10
            assert reward[world].tolist() == states[world].returns()
        playing = [world for world in playing if not states[world].is_terminal()]


def test_illegal_action_costs_the_paid_chips():
    """The player to act has paid the ante only."""
    core = make_core("KuhnPoker-v0", 1, "cpu", seed=0, illegal_actions="loss", autoreset="disabled")
    for played, foul in (([], 0), ([0], 1), ([0, 1], 0), ([1], 1)):
        core.reset()
        for turn, choice in enumerate(played):
            action = torch.zeros(1, 2, dtype=torch.int64)
            action[0, turn % 2] = choice
            core.step(action)
        action = torch.zeros(1, 2, dtype=torch.int64)
        action[0, foul] = 7
        _, reward, terminated, _, _ = core.step(action)
        assert terminated.all()
        assert reward[0].tolist() == [-1.0 if player == foul else 1.0 for player in range(2)]


def test_deals_are_uniform():
    _, counts = spiel.fresh_deals("KuhnPoker-v0", spiel.deals_of(4, 3), num_players=3)
    assert spiel.uniform(counts)
    skewed = counts.copy()
    skewed[0] += counts.sum() // 100
    assert not spiel.uniform(skewed)
