"""VMASBalance-v0: recorded transitions of VMAS 1.5.2, starts and settings.

``make test-parity`` plays the original itself with other settings, see tests/libraries/test_vmas.py.
"""

import pytest
import torch

from gpu_envs.runtime.factory import make_core
from parity.traces import recorded
from parity.vmas.vmas_replay import TRACE, check_action_tables, replay, traces_of

TOLERANCE = 1e-5


@pytest.mark.variations
@pytest.mark.parametrize("index", traces_of("balance"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "balance"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] > 10


def test_starts_place_the_line_above_the_floor_with_the_ball_on_it():
    core = make_core("VMASBalance-v0", 20_000, "cpu", seed=3)
    core.reset()
    pos = core.world_state["pos"].double()
    line, ball, goal = pos[:, 4], pos[:, 3], pos[:, 5]
    assert line[:, 0].abs().max() <= 0.6
    assert abs(float((line[:, 0] < 0.0).double().mean()) - 0.5) < 0.02
    assert abs(float((goal[:, 1] < 0.5).double().mean()) - 0.5) < 0.02
    assert goal[:, 1].min() >= 0.0
    torch.testing.assert_close(line[:, 1], torch.full_like(line[:, 1], -0.94))
    torch.testing.assert_close(ball[:, 1], line[:, 1] + 0.05)
    along = ball[:, 0] - line[:, 0]
    assert 0.34 < along.abs().max() <= 0.35001
    torch.testing.assert_close(
        pos[:, :3, 0] - line[:, :1], torch.tensor([[-0.385, 0.0, 0.385]]).double().expand(20_000, 3)
    )


def test_ball_starts_in_the_middle_on_request():
    core = make_core("VMASBalance-v0", 100, "cpu", seed=3, random_package_pos_on_line=False)
    core.reset()
    assert torch.equal(core.world_state["pos"][:, 3, 0], core.world_state["pos"][:, 4, 0])


def test_action_table():
    check_action_tables("vmas/balance")
