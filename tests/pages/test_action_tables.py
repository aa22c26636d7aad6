"""Action tables of pages: each row has the effect that it describes."""

import classic_actions
import cooperative_actions
import game_actions
import particle_actions
import pytest
from action_steps import NAMES

CHECKS = vars(classic_actions) | vars(cooperative_actions) | vars(game_actions) | vars(particle_actions)


QUICK = ("CartPole-v1", "Pendulum-v1", "RockPaperScissors-v0", "SimpleSpeakerListener-v0", "SimpleTag-v0")
"""Environments of quick tests, with discrete, continuous and several actions."""


@pytest.mark.parametrize(
    ("name", "env_id"),
    [pytest.param(*each, marks=() if each[1] in QUICK else pytest.mark.slow) for each in NAMES.items()],
)
def test_action_tables(name, env_id):  # env_id: for the parts of all tests, see selection.py
    """Each row has the effect that it describes."""
    check = CHECKS.get(f"{name.rpartition('/')[2]}_actions")
    if check is None:
        assert name.startswith("mpe/"), f"needs a function {name.rpartition('/')[2]}_actions"
        particle_actions.mpe_actions(name)
    else:
        check()
