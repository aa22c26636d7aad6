"""VMASFlocking-v0: recorded transitions of VMAS 1.5.2, starts and settings.

``make test-parity`` plays the original itself with other settings, see tests/libraries/test_vmas.py.
"""

import pytest
import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity.traces import recorded
from parity.vmas.vmas_replay import TRACE, assert_uniform, check_action_tables, replay, traces_of

TOLERANCE = 1e-5


@pytest.mark.variations
@pytest.mark.parametrize("index", traces_of("flocking"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "flocking"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] > 40
    assert trace["time"].max() == 14
    assert (trace["obs"][..., 6:] < 0.19).sum() > 5  # obstacles are seen


def test_starts_leave_bodies_apart_and_the_target_at_the_edge():
    core = make_core("VMASFlocking-v0", 5000, "cpu", seed=3)
    core.reset()
    pos = core.world_state["pos"]
    assert (pos[:, 4] == torch.tensor([0.0, -1.0])).all()
    upper = pos[:, 5][pos[:, 5, 1] > -0.5]  # the first obstacle, whose place only the target restricts
    assert_uniform((upper - torch.tensor([0.0, 0.25])) / torch.tensor([1.0, 0.75]), 1.0)
    assert pos.abs().max() <= 1.0
    assert (torch.cdist(pos, pos) + 9.0 * torch.eye(10)).min() >= 0.15


def test_room_for_bodies_is_required():
    with pytest.raises(ConfigError, match=r"^VMASFlocking-v0: starts: expected room for 10 bodies 0.5 m apart"):
        make_core("VMASFlocking-v0", 1, "cpu", min_dist_between_entities=0.5)


def test_action_table():
    check_action_tables("vmas/flocking")
