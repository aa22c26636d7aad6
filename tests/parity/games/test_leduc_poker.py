"""LeducPoker-v0 against OpenSpiel 2.0.2's leduc_poker: every deal, every betting."""

import pytest
import torch

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core
from parity.references import spiel

DEALS = spiel.deals_of(6, 3)


def test_all_histories_equal_the_reference():
    tree, counts = spiel.walk_all("LeducPoker-v0", "leduc_poker", DEALS)
    assert (len(tree.histories), len(tree.terminals)) == (9300, 5520) == spiel.size_of("leduc_poker")
    assert len(tree.views) == 2 * len({information for player, information in tree.views if player == 0})
    assert tree.deciding > len(tree.histories) / 2
    assert spiel.uniform(counts)


def test_illegal_action_costs_as_a_fold():
    """Otherwise an illegal action would be better than a fold, and be learned."""
    outcomes = []
    for last in (0, 7):  # fold, no action at all
        core = make_core("LeducPoker-v0", 1, "cpu", seed=0, illegal_actions="loss", autoreset="disabled")
        core.reset()
        for mover, choice in ((0, 2), (1, 2), (0, last)):
            action = torch.zeros(1, 2, dtype=torch.int64)
            action[0, mover] = choice
            _, reward, terminated, _, _ = core.step(action)
        assert terminated.all()
        outcomes.append(reward[0].tolist())
    assert outcomes == [[-3.0, 3.0], [-3.0, 3.0]]


@pytest.mark.parametrize("name", ["ante", "first_raise", "second_raise"])
def test_parameters_have_bounds(name):
    core = make_core("LeducPoker-v0", 1, "cpu", seed=0)
    for value in (-1, 2**31 - 1):
        with pytest.raises(errors.ConfigError, match=rf"{name}: expected values in \[0, 1000000\], got "):
            core.set_params(**{name: value})
        with pytest.raises(
            errors.ConfigError, match=rf"domain_randomization: {name}: expected values in \[0, 1000000\], got "
        ):
            make_core("LeducPoker-v0", 1, "cpu", domain_randomization={name: (value, value)})
