"""VMASReverseTransport-v0: recorded transitions of VMAS 1.5.2, and starts.

``make test-parity`` plays the original itself with other settings, see tests/libraries/test_vmas.py.
"""

import pytest
import torch

from gpu_envs.runtime.factory import make_core
from parity.traces import recorded
from parity.vmas.vmas_replay import TRACE, assert_uniform, check_action_tables, replay, traces_of

TOLERANCE = 1e-5


@pytest.mark.variations
@pytest.mark.parametrize("index", traces_of("reverse_transport"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "reverse_transport"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] > 10
    assert counts["ends"] >= 1


def test_starts_have_all_agents_inside_the_package():
    core = make_core("VMASReverseTransport-v0", 5000, "cpu", seed=3, package_width=0.4)
    core.reset()
    pos = core.world_state["pos"]
    assert_uniform(pos[:, 4], 1.0)
    assert_uniform(pos[:, 5], 1.0)
    offsets = (pos[:, :4] - pos[:, 4:5]).reshape(-1, 2)
    assert_uniform(offsets / torch.tensor([0.27, 0.17]), 1.0)
    torch.testing.assert_close(core.world_state["gap"], (pos[:, 4] - pos[:, 5]).norm(dim=-1))


def test_action_table():
    check_action_tables("vmas/reverse_transport")
