"""Bytes per env-step against figures worked out by hand, and the copy that measures a machine's bandwidth."""

import pytest
import torch
from small_environments import SMALL

from benchmarks.hardware.bandwidth import copy_rates
from benchmarks.throughput.roofline import COUNTED, traffic
from gpu_envs.runtime.factory import make_core


def moved(core):
    return {entry.name: entry.moved for entry in traffic(core).entries if entry.moved}


def test_simple_tag_by_hand():
    """Compare with a count by hand of 434 bytes.

    State 128, obstacles 16, actions 16, counter 8, observation 248, reward 16, done 2. In addition, gpu-envs moves
    actions of 8 bytes instead of 4 (16), returns (64), five flags instead of two (15), the counts of touches (32), and
    the pace of the good agents (4), which is equal in all worlds without a curriculum.
    """
    core = make_core("SimpleTag-v0", 3, "cpu", seed=0)
    assert moved(core) == {
        "state.pos": 6 * 8 + 4 * 8,  # obstacles are read only
        "state.vel": 4 * 8 * 2,
        "state.pace": 4,
        "state.touches": 4 * 4 * 2,
        "io.choice": 4 * 8,
        "io.obs": (3 * 16 + 14) * 4,
        "io.reward": 4 * 4,
        "io.running_return": 4 * 8 * 2,
        **dict.fromkeys(("io.terminated", "io.truncated", "io.alive", "io.valid"), 4),
        "io.step": 8,
        "io.over": 1,
    }
    assert traffic(core).bytes == 434 + 16 + 64 + 15 + 32 + 4


@pytest.mark.slow
@pytest.mark.optimized  # for its many steps
def test_tag_continuous_by_hand():
    """Compare with a count by hand of 344 bytes per agent.

    State 40, alive 8, actions 8, reward 4, observation 4 x (7 K + 1). gpu-envs moves actions of 16 bytes, returns (16),
    four flags of a byte instead of 8, whether an agent has survived (2), and 9 bytes per world. The grid of cells,
    neighbors and tags live within a step, so the kind of search makes no difference.
    """
    for search in ("brute", "grid"):
        core = make_core("TagContinuous-v0", 2, "cpu", seed=0, neighbor_search=search)
        assert traffic(core).bytes == 105 * (344 + 8 + 16 - 4 + 2) + 9


def test_cartpole_by_hand():
    """Compare with a count by hand: state 32, action 8, observation 16, reward 4, return 16, counter 8, five flags."""
    assert traffic(make_core("CartPole-v1", 2, "cpu", seed=0)).bytes == 32 + 8 + 16 + 4 + 16 + 8 + 5


@pytest.mark.representative
def test_every_environment_has_a_figure(env_id, small_core):
    """Actions and observations at least; at most every buffer of a world read and written."""
    core = small_core(env_id, 4)
    state = core.get_state()
    counted = traffic(core)
    layout = core._buffers
    limit = sum(
        2 * tensor[0].numel() * tensor.element_size() for tensor in layout.saved_state.values() if tensor.numel()
    )
    limit += sum(2 * layout.io[n][0].numel() * layout.io[n].element_size() for n in COUNTED if layout.io[n].numel())
    widths = sum(space.shape[0] for space in core.observation_spaces.values())
    assert core.num_agents * 8 + widths * 4 < counted.bytes <= limit + widths * 4
    assert all(torch.equal(state[name], tensor) for name, tensor in core.get_state().items())


def test_constants_of_every_world_are_read():
    drawn = make_core(
        "SimpleTag-v0", 4, "cpu", seed=0, domain_randomization={"good_max_speed": (1.0, 1.6)}, **SMALL["SimpleTag-v0"]
    )
    assert moved(drawn)["params"] == 4 * drawn._buffers.params.shape[1]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_copy_bandwidth(device):
    rates = copy_rates(device, size=16 << 20, repeats=5)
    assert len(rates) == 5
    assert 1e8 < min(rates) <= max(rates) < 1e14


def test_constant_fields_are_read_but_not_written(small_core):
    """Goals are drawn at the reset, so they are constant in an episode and differ between worlds."""
    entries = {entry.name: entry for entry in traffic(small_core("SimpleSpeakerListener-v0")).entries}
    goal = entries["state.goal"]
    assert (goal.reads, goal.writes) == (1, 0)
