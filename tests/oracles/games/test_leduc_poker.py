"""LeducPoker-v0 against OpenSpiel 2.0.2's leduc_poker: every deal, every betting."""

from references import spiel

DEALS = spiel.deals_of(6, 3)


def test_every_history():
    tree, counts = spiel.walk_all("LeducPoker-v0", "leduc_poker", DEALS)
    assert (len(tree.histories), len(tree.terminals)) == (9300, 5520) == spiel.size_of("leduc_poker")
    assert len(tree.views) == 2 * len({told for player, told in tree.views if player == 0})
    assert tree.deciding > len(tree.histories) / 2
    assert spiel.uniform(counts)
