"""VMASNavigation-v0: recorded transitions of VMAS 1.5.2, starts and settings.

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
@pytest.mark.parametrize("index", traces_of("navigation"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "navigation"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] > 10


def test_starts_leave_agents_and_goals_apart():
    core = make_core("VMASNavigation-v0", 2000, "cpu", seed=3, world_spawning_x=2.0)
    core.reset()
    pos = core.world_state["pos"]
    assert_uniform(pos[:, 0] / torch.tensor([2.0, 1.0]), 1.0)
    assert (torch.cdist(pos, pos) + 9.0 * torch.eye(8)).min() >= 0.25


def test_agents_share_goals_on_request():
    core = make_core("VMASNavigation-v0", 50, "cpu", seed=3, collisions=False, agents_with_same_goal=3)
    core.reset()
    goals = core.world_state["pos"][:, 4:]
    assert torch.equal(goals[:, :1].expand(50, 3, 2), goals[:, :3])
    assert not torch.equal(goals[:, 0], goals[:, 3])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"agents_with_same_goal": 2},
            r"^VMASNavigation-v0: agents_with_same_goal: expected at most 1 with these settings, got 2;",
        ),
        ({"collisions": False, "agents_with_same_goal": 5}, r"expected at most 4 with these settings, got 5;"),
        ({"collisions": False, "split_goals": True}, r": split_goals: expected agents_with_same_goal of half the 4"),
        ({"agent_radius": 0.4}, r": starts: expected room for 8 bodies 0.85 m apart"),
    ],
)
def test_contradictory_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core("VMASNavigation-v0", 1, "cpu", **settings)


def test_action_table():
    check_action_tables("vmas/navigation")
