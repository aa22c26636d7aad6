"""VMASSampling-v0: recorded transitions of VMAS 1.5.2, starts and settings.

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
@pytest.mark.parametrize("index", traces_of("sampling"))
def test_recorded_transitions_equal_the_original(index):
    (name, settings), trace = recorded(TRACE, index)
    assert name == "sampling"
    counts = replay(name, settings, trace, TOLERANCE)
    assert counts["steps"] == 22
    assert counts["rewards"] > 10


def test_starts_have_agents_and_peaks_in_the_field_and_the_largest_density_on_its_grid():
    core = make_core("VMASSampling-v0", 2000, "cpu", seed=3, agent_radius=0.2, cov=0.01)
    core.reset()
    state = core.world_state
    assert_uniform(state["peak"].reshape(-1, 2), 1.0)
    assert state["pos"].abs().max() == pytest.approx(0.8)
    assert float((state["pos"].abs() == state["pos"].abs().max()).double().mean()) == pytest.approx(0.2, abs=0.02)
    ticks = (torch.arange(40) * 0.05 - 1.0).clamp(-0.8, 0.8)
    square = torch.cdist(torch.cartesian_prod(ticks, ticks), state["peak"][:50]).double().square()
    density = torch.exp(-0.5 * square / 0.01).sum(-1) / (2.0 * torch.pi * 0.01)
    torch.testing.assert_close(state["max_density"][:50].double(), density.amax(1), rtol=1e-4, atol=0.0)
    assert not state["sampled"].any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"xdim": 0.97}, r"^VMASSampling-v0: xdim: expected a multiple of grid_spacing that is more than agent_radius"),
        ({"agent_radius": 1.0, "ydim": 0.5}, r": xdim: expected a multiple .* got 1.0"),
    ],
)
def test_contradictory_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core("VMASSampling-v0", 1, "cpu", **settings)


def test_action_table():
    check_action_tables("vmas/sampling")
