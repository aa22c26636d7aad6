"""Action tables of pages: each row has the effect that it describes."""

import classic_actions
import cooperative_actions
import game_actions
import particle_actions
import pytest
from action_steps import NAMES

from docs.scripts import tables

CHECKS = vars(classic_actions) | vars(cooperative_actions) | vars(game_actions) | vars(particle_actions)
"""Checks by name: ``NAME_actions``. An environment may have ``test_action_table`` in its parity test instead."""

QUICK = ("CartPole-v1", "Pendulum-v1", "RockPaperScissors-v0", "SimpleSpeakerListener-v0", "SimpleTag-v0")
"""Environments of quick tests, with discrete, continuous and several actions."""


@pytest.mark.parametrize(
    ("name", "env_id"),
    [pytest.param(*entry, marks=() if entry[1] in QUICK else pytest.mark.slow) for entry in NAMES.items()],
)
def test_action_tables(name, env_id):  # env_id: for the parts of all tests, see tests/conftest.py
    """Each row has the effect that it describes."""
    check = f"{name.rpartition('/')[2]}_actions"
    if check in CHECKS:
        CHECKS[check]()
    elif name.startswith("mpe/"):
        particle_actions.mpe_actions(name)
    else:
        assert "def test_action_table" in tables.oracle(name).read_text(), f"neither {check} nor test_action_table"
