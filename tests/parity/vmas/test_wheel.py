"""VMASWheel-v0: recorded transitions of VMAS 1.5.2, starts and settings.

``make test-parity`` plays the original itself with other settings, see tests/libraries/test_vmas.py.
"""

import pytest
import torch

from gpu_envs.runtime.factory import make_core
from parity.traces import recorded
from parity.vmas.vmas_replay import TRACE, assert_uniform, check_action_tables, replay, traces_of

TOLERANCE = 1e-5


@pytest.mark.variations
@pytest.mark.parametrize("index", traces_of("wheel"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "wheel"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] > 10


def test_start_distribution():
    core = make_core("VMASWheel-v0", 20_000, "cpu", seed=3)
    core.reset()
    pos, rot = core.world_state["pos"], core.world_state["rot"][:, 0]
    for row in range(4):
        assert_uniform(pos[:, row], 1.0)
    assert not pos[:, 4].any()
    assert_uniform(torch.stack([rot, -rot], -1), torch.pi / 2)
    assert not core.world_state["spin"].any()


def test_action_table():
    check_action_tables("vmas/wheel")
