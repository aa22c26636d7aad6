"""VMASDiscovery-v0: recorded transitions of VMAS 1.5.2, starts and settings.

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
@pytest.mark.parametrize("index", traces_of("discovery"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "discovery"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] > 10
    assert 3 < (trace["after_coverers"] > 0).any(1).sum() < 20  # in the other steps all places are compared


def test_starts_leave_agents_and_targets_apart():
    core = make_core("VMASDiscovery-v0", 2000, "cpu", seed=3, y_semidim=2.0)
    core.reset()
    pos = core.world_state["pos"]
    assert_uniform(pos[:, 5] / torch.tensor([1.0, 2.0]), 1.0)
    assert (torch.cdist(pos, pos) + 9.0 * torch.eye(12)).min() >= 0.2


def test_covered_targets_move_to_a_random_place_apart_from_others():
    core = make_core("VMASDiscovery-v0", 5000, "cpu", seed=3, n_targets=2, autoreset="disabled")
    core.reset()
    pos = core.world_state["pos"]
    angle = torch.arange(5) * 0.4 * torch.pi
    pos[:, :5] = 0.15 * torch.stack([angle.cos(), angle.sin()], 1)
    places = []
    for _ in range(2):
        pos[:, 5:] = torch.tensor([[0.0, 0.0], [-0.9, -0.9]])
        _, reward, *_ = core.step(torch.zeros_like(core.action_buffer))
        assert (reward == 1.0).all()
        assert (pos[:, 6] == -0.9).all()
        assert (pos[:, 5:6] - pos[:, [0, 1, 2, 3, 4, 6]]).norm(dim=-1).min() >= 0.2
        places.append(pos[:, 5].clone())
    first, second = places
    assert (first != second).any(1).all()
    right = first[first[:, 0] > 0.4]  # no other body is near
    assert_uniform((right - torch.tensor([0.7, 0.0])) / torch.tensor([0.3, 1.0]), 1.0)


def test_room_for_agents_and_targets_is_required():
    with pytest.raises(ConfigError, match=r"^VMASDiscovery-v0: starts: expected room for 12 bodies 0.5 m apart"):
        make_core("VMASDiscovery-v0", 1, "cpu", min_dist_between_entities=0.5)


def test_action_table():
    check_action_tables("vmas/discovery")
