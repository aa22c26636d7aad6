"""VMASMultiGiveWay-v0: recorded transitions of VMAS 1.5.2, starts and settings.

``make test-parity`` plays the original itself with other settings, see tests/libraries/test_vmas.py.
"""

import pytest
import torch

from docs.scripts import tables
from gpu_envs.runtime.factory import make_core
from parity.traces import recorded
from parity.vmas.vmas_replay import TRACE, core_at, replay, traces_of

TOLERANCE = 1e-5


@pytest.mark.variations
@pytest.mark.parametrize("index", traces_of("multi_give_way"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "multi_give_way"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] > 80


def test_starts_equal_the_original():
    (name, settings), trace = recorded(TRACE, traces_of("multi_give_way")[0])
    core = core_at(name, settings, trace)
    core.reset()
    pos, walls = core.world_state["pos"], torch.from_numpy(trace["pos"])
    assert (pos[:, 4:] == walls[:, 4:]).all()
    assert pos[0, :4].tolist() == [[-2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, -2.0]]
    assert not core.world_state["error_sum"].any()
    assert core.obs[:, :, 6] == pytest.approx(core.world_state["gap"].numpy())


def test_action_table():
    """The velocity changes in the direction of the row."""
    signs = {"nothing": 0.0, "left": -1.0, "right": 1.0, "down": -1.0, "up": 1.0}
    _, discrete = tables.action_tables("vmas/multi_give_way")
    assert [row[0] for row in discrete] == list(range(9))
    core = make_core("VMASMultiGiveWay-v0", 9, "cpu", seed=0, continuous_actions=False)
    core.reset()
    core.step(torch.arange(9)[:, None].expand(9, 4).clone())
    for index, horizontal, vertical in discrete:
        expected = torch.tensor([signs[horizontal], signs[vertical]])
        assert torch.equal(core.world_state["vel"][index, 0].sign(), expected)
    space = make_core("VMASMultiGiveWay-v0", 1, "cpu", u_range=0.7).action_spaces["agent_0"]
    assert space.high.tolist() == pytest.approx([0.7, 0.7])
