"""VMASGiveWay-v0: recorded transitions of VMAS 1.5.2, starts and settings.

``make test-parity`` plays the original itself with other settings, see tests/libraries/test_vmas.py.
"""

import pytest
import torch

from docs.scripts import tables
from gpu_envs.runtime.factory import make_core
from parity.traces import recorded
from parity.vmas.vmas_replay import TRACE, assert_uniform, replay, traces_of

TOLERANCE = 1e-5


@pytest.mark.variations
@pytest.mark.parametrize("index", traces_of("give_way"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "give_way"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] > 10


def test_starts_are_near_the_ends_of_the_corridor():
    core = make_core("VMASGiveWay-v0", 20_000, "cpu", seed=3)
    core.reset()
    pos = core.world_state["pos"]
    assert_uniform(pos[:, 0] - torch.tensor([-2.0, 0.0]), 0.02)
    assert_uniform(pos[:, 1] - torch.tensor([2.0, 0.0]), 0.02)
    assert torch.equal(pos[0, 2:4], torch.tensor([[2.29, 0.0], [-2.29, 0.0]]))
    assert not core.world_state["error_sum"].any()


def test_action_table():
    """The velocity changes in the direction of the row; actions are velocities, or forces."""
    signs = {"nothing": 0.0, "left": -1.0, "right": 1.0, "down": -1.0, "up": 1.0}
    _, discrete = tables.action_tables("vmas/give_way")
    assert [row[0] for row in discrete] == list(range(9))
    core = make_core("VMASGiveWay-v0", 9, "cpu", seed=0, continuous_actions=False)
    core.reset()
    core.step(torch.arange(9)[:, None].expand(9, 2).clone())
    for index, horizontal, vertical in discrete:
        expected = torch.tensor([signs[horizontal], signs[vertical]])
        assert torch.equal(core.world_state["vel"][index, 0].sign(), expected)
    for settings, limit in (({}, 0.5), ({"use_velocity_controller": False}, 1.1)):
        space = make_core("VMASGiveWay-v0", 1, "cpu", **settings).action_spaces["agent_0"]
        assert space.high.tolist() == pytest.approx([limit, limit])
