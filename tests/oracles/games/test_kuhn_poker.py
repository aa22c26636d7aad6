"""KuhnPoker-v0 against OpenSpiel 2.0.2's kuhn_poker: every deal, every betting."""

import pytest
from references import spiel

SIZES = {2: (54, 30), 3: (600, 312), 4: (7800, 3960)}
"""Histories without chance nodes, and terminal ones, by number of players."""


@pytest.mark.parametrize("players", SIZES)
def test_every_history(players):
    deals = spiel.deals_of(players + 1, players)
    theirs = f"kuhn_poker(players={players})"
    tree, _ = spiel.walk_all("KuhnPoker-v0", theirs, deals, num_players=players)
    assert (len(tree.histories), len(tree.terminals)) == SIZES[players] == spiel.size_of(theirs)
    assert tree.deciding > len(tree.histories) / 2


def test_deals_are_uniform():
    _, counts = spiel.fresh_deals("KuhnPoker-v0", spiel.deals_of(4, 3), num_players=3)
    assert spiel.uniform(counts)
    skewed = counts.copy()
    skewed[0] += counts.sum() // 100
    assert not spiel.uniform(skewed)
