"""LeducPoker-v0 against OpenSpiel 2.0.2's leduc_poker: every deal, every betting."""

import pytest
import torch

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core
from parity.references import spiel


def deal(fields, world, state):
    """Return OpenSpiel's next card: of player 0, of player 1, the public one."""
    return fields["card"][world, spiel.chances(state)]


def test_all_histories_equal_the_reference():
    compared = spiel.all_histories("LeducPoker-v0", "leduc_poker", "card", deal)
    finals = {state.history_str() for state in compared.states}  # the public card may stay hidden
    assert len(finals) == 5520 == spiel.size_of("leduc_poker")[1]
    assert all(len(obs) == 1 for obs in compared.views.values())  # an information state has one observation
    assert len(set().union(*compared.views.values())) == len(compared.views)  # and the reverse
    assert len(compared.starts) == 120
    assert spiel.uniform(compared.starts)


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
