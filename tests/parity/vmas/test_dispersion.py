"""VMASDispersion-v0: recorded transitions of VMAS 1.5.2, starts and settings.

``make test-parity`` plays the original itself with other settings, see tests/libraries/test_vmas.py.
"""

import pytest

from gpu_envs.runtime.factory import make_core
from parity.traces import recorded
from parity.vmas.vmas_replay import TRACE, assert_uniform, check_action_tables, replay, traces_of

TOLERANCE = 1e-5


@pytest.mark.variations
@pytest.mark.parametrize("index", traces_of("dispersion"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "dispersion"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] >= 4  # food is eaten in all traces


def test_start_distribution():
    core = make_core("VMASDispersion-v0", 20_000, "cpu", seed=3, pos_range=0.5)
    core.reset()
    pos = core.world_state["pos"]
    assert not pos[:, :4].any()
    for row in range(4, 8):
        assert_uniform(pos[:, row], 0.5)
    assert not core.world_state["eaten"].any()


def test_action_table():
    check_action_tables("vmas/dispersion")
