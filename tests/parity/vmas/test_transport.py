"""VMASTransport-v0: recorded transitions of VMAS 1.5.2, starts and settings.

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
@pytest.mark.parametrize("index", traces_of("transport"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "transport"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] > 10


def test_starts_leave_agents_and_packages_apart_and_packages_off_the_goal():
    core = make_core("VMASTransport-v0", 2000, "cpu", seed=3, n_packages=2)
    core.reset()
    pos = core.world_state["pos"]
    assert_uniform(pos[:, :4].reshape(-1, 2), 1.0)
    gaps = torch.cdist(pos, pos) + 9.0 * torch.eye(7)
    assert gaps[:, :4, :4].min() >= 0.06
    assert gaps[:, 4:].min() >= 0.15 * 2**0.5 / 2 + 0.15 + 0.01
    assert not core.world_state["on_goal"].any()
    assert not core.world_state["vel"].any()


def test_starts_without_room_are_refused():
    with pytest.raises(ConfigError, match=r": starts: expected room for 41 bodies 0.26.* got "):
        make_core("VMASTransport-v0", 1, "cpu", n_packages=40)


def test_action_table():
    check_action_tables("vmas/transport")
