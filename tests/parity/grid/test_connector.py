"""Connector-v0 against recorded steps of Jumanji 1.1.2, compared exactly; ``make test-parity`` plays Jumanji itself."""

import pytest
import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity import jax_replay

ENV = "Connector-v0"
STAY, UP, RIGHT, DOWN, LEFT = range(5)


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize("index", range(len(jax_replay.TRACES[ENV])))
def test_recorded_steps_equal_the_original(index):
    rewards = jax_replay.replay(ENV, index)
    assert len(rewards) > 100
    assert min((rewards < 0).any(1).sum(), (rewards > 0).any(1).sum()) > 10


def core_with(rows, num_agents, **settings):
    """Return a core whose world has these values of cells."""
    grid = torch.tensor(rows)
    core = make_core(
        ENV, 1, "cpu", grid_size=len(rows), num_agents=num_agents, generator="uniform", autoreset="disabled", **settings
    )
    core.reset()
    state = core.get_state()
    state["state.grid"].copy_(grid)
    for agent in range(num_agents):
        state["state.position"][0, agent] = (grid == 2 + 3 * agent).nonzero()[0]
        state["state.target"][0, agent] = (grid == 3 + 3 * agent).nonzero()[0]
    core.set_state(state)
    return core


def test_agent_with_the_highest_index_gets_a_cell_that_several_want():
    core = core_with([[2, 0, 5], [0, 0, 0], [6, 0, 3]], 2)
    core.step(torch.tensor([[RIGHT, LEFT]]))
    assert core.world_state["grid"][0, 0].tolist() == [2, 5, 4]
    assert core.world_state["length"].tolist() == [[1, 2]]


def test_blocked_agents_end_the_episode():
    core = core_with([[2, 0, 3], [5, 0, 0], [6, 0, 0]], 2)
    core.step(torch.tensor([[STAY, DOWN]]))
    assert core.world_state["connected"].tolist() == [[0, 1]]
    core = core_with([[2, 0, 3], [0, 5, 0], [0, 6, 0]], 2)
    core.step(torch.tensor([[STAY, LEFT]]))
    terminated = core.step(torch.tensor([[STAY, DOWN]]))[2]
    assert not terminated.any()
    core = core_with([[2, 5], [6, 3]], 2)
    assert core.step(torch.tensor([[STAY, STAY]]))[2].all(), "nobody can move"


def test_random_walks_can_be_undone():
    """Targets lie farther from their heads than in the uniform start if the temperature is low, and nearer if high."""
    distances = {}
    for name, settings in {
        "low": {"temperature": 0.01},
        "high": {"temperature": 1e6},
        "uniform": {"generator": "uniform"},
    }.items():
        core = make_core(ENV, 500, "cpu", seed=0, num_agents=2, grid_size=10, **settings)
        core.reset()
        gap = (core.world_state["position"] - core.world_state["target"]).abs().sum(-1).float()
        assert gap.min() >= 1
        distances[name] = gap.mean().item()
    assert distances["high"] < distances["uniform"] < distances["low"]


def test_uniform_starts_use_all_cells_equally():
    core = make_core(ENV, 5_000, "cpu", seed=0, num_agents=2, grid_size=3, generator="uniform")
    core.reset()
    grid = core.world_state["grid"]
    for value in (2, 3, 5, 6):
        assert ((grid == value).float().mean(0) - 1 / 9).abs().max() < 0.02


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_agents": 26}, "num_agents: expected at most 25 with grid_size=10 and generator='random_walk', got 26"),
        ({"num_agents": 51, "generator": "uniform"}, "num_agents: expected at most 50 with grid_size=10"),
        ({"temperature": 0.0}, "temperature: expected"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core(ENV, 1, "cpu", **settings)
