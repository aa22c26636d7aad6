"""Connector-v0 against recorded steps of Jumanji 1.1.2, compared exactly; ``make test-parity`` plays Jumanji itself."""

import pytest
import torch

from gpu_envs.envs.grid.connector import original_settings
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


def has_solution(free, pairs):
    """Return whether paths over free cells connect all pairs (head, target) without a common cell."""
    if not pairs:
        return True
    (head, target), *others = pairs
    row, column = head
    for cell in ((row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)):
        if cell == target:
            if has_solution(free, others):
                return True
        elif cell in free and has_solution(free - {cell}, [(cell, target), *others]):
            return True
    return False


def test_all_agents_can_connect_after_random_walks():
    core = make_core(ENV, 60, "cpu", seed=0, grid_size=4, num_agents=4)
    core.reset()
    for heads, targets in zip(core.world_state["position"].tolist(), core.world_state["target"].tolist(), strict=True):
        pairs = list(zip(map(tuple, heads), map(tuple, targets), strict=True))
        free = {(row, column) for row in range(4) for column in range(4)} - {cell for pair in pairs for cell in pair}
        assert has_solution(free, pairs), pairs
    assert not has_solution({(1, 0), (1, 1)}, [((0, 0), (2, 1)), ((0, 1), (2, 0))]), "wires would cross"


def distances(**settings):
    """Return the distances (500, 2) between heads and targets at the start."""
    core = make_core(ENV, 500, "cpu", seed=0, num_agents=2, **settings)
    core.reset()
    return (core.world_state["position"] - core.world_state["target"]).abs().sum(-1)


def test_low_temperatures_and_long_walks_lead_far():
    assert (distances(max_walk_steps=1) == 1).all()
    assert distances(max_walk_steps=2).max() == 2
    high, low = (distances(temperature=value).float().mean() for value in (1e6, 0.01))
    assert high < distances(generator="uniform").float().mean() < low


def test_uniform_starts_use_all_cells_equally():
    core = make_core(ENV, 5_000, "cpu", seed=0, num_agents=2, grid_size=3, generator="uniform")
    core.reset()
    grid = core.world_state["grid"]
    for value in (2, 3, 5, 6):
        assert ((grid == value).float().mean(0) - 1 / 9).abs().max() < 0.02


def test_tasks_of_mava_have_settings():
    assert original_settings("con-15x15x23a") == {"grid_size": 15, "num_agents": 23}
    for name in ("con-5x6x3a", "con-5x5x3", "connector"):
        with pytest.raises(ConfigError, match="name: expected a task of Mava such as 'con-10x10x10a', got"):
            original_settings(name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_agents": 26}, "num_agents: expected at most 25 with grid_size=10 and generator='random_walk', got 26"),
        ({"num_agents": 51, "generator": "uniform"}, "num_agents: expected at most 50 with grid_size=10"),
        ({"temperature": 0.0}, "temperature: expected"),
        ({"max_steps": 9}, "max_episode_steps is the time limit"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core(ENV, 1, "cpu", **settings)
