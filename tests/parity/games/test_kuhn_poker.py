"""KuhnPoker-v0 against OpenSpiel 2.0.2's kuhn_poker: every deal, every betting."""

import math

import pytest
import torch

from gpu_envs.runtime.factory import make_core
from parity.references import spiel

SIZES = {2: (54, 30), 3: (600, 312), 4: (7800, 3960)}
"""Histories without chance nodes, and terminal ones, by number of players."""


def deal(fields, world, state):
    """Return OpenSpiel's next card."""
    return fields["card"][world, spiel.chances(state)]


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize("players", SIZES)
def test_all_histories_equal_the_reference(players):
    theirs = f"kuhn_poker(players={players})"
    compared = spiel.all_histories("KuhnPoker-v0", theirs, "card", deal, num_players=players)
    assert (compared.decisions + len(compared.states), len(compared.states)) == SIZES[players] == spiel.size_of(theirs)
    assert all(len(obs) == 1 for obs in compared.views.values())  # an information state has one observation
    assert len(set().union(*compared.views.values())) == len(compared.views)  # and the reverse
    assert len(compared.starts) == math.perm(players + 1, players)
    assert spiel.uniform(compared.starts)
    if players > 2:
        compared.starts[0] += compared.starts.sum() // 100
        assert not spiel.uniform(compared.starts)


def test_random_games_of_ten():
    """More players than all histories are compared for."""
    compared = spiel.random_games("KuhnPoker-v0", "kuhn_poker(players=10)", 60, deal, seed=2, num_players=10)
    assert len(compared.states) == 60


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
