"""CommonsHarvest-v0 against recorded steps of SocialJax, compared exactly."""

import numpy as np
import pytest
import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity import jax_replay

ENV = "CommonsHarvest-v0"
TURN_LEFT, TURN_RIGHT, LEFT, RIGHT, UP, DOWN, STAY, ZAP = range(8)
FIELD = {"layout_grid": ("A A A  ", "       ", "   W   ", "       ", "PPP    "), "num_agents": 3}
EMPTY, WALL, BEAM, APPLE, AGENT = 0, 1, 2, 3, 6


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize("index", range(len(jax_replay.TRACES[ENV])))
def test_recorded_steps_equal_the_original(index):
    _, worlds, steps = jax_replay.TRACES[ENV][index]
    rewards = jax_replay.replay(ENV, index)
    assert len(rewards) == worlds * steps
    assert (rewards > 0).any()


def at(positions, headings, num_envs=1, **settings):
    """Return a core in which agents are at these cells and no apple has been eaten."""
    core = make_core(ENV, num_envs, "cpu", seed=0, autoreset="disabled", **{**FIELD, **settings})
    core.reset()
    state = core.world_state
    state["grid"].copy_(state["start"])
    for agent, (row, column) in enumerate(positions):
        state["grid"][:, row, column] = AGENT + agent
    for name, values in (("position", positions), ("heading", headings)):
        state[name].copy_(torch.tensor(values).expand_as(state[name]))
        state[f"next_{name}"].copy_(state[name])
    return core


@pytest.mark.parametrize(("shared", "rewards"), [(True, [2, 2, 2]), (False, [3, 3, 0])])
def test_apples_feed_one_agent_or_all(shared, rewards):
    core = at([(1, 0), (0, 1), (4, 4)], [0, 0, 0], shared_rewards=shared)
    _, reward, *_, info = core.step(torch.tensor([[DOWN, LEFT, STAY]]))
    assert reward.tolist() == [rewards]
    assert info["apples"].tolist() == [[1, 1, 0]]
    assert info["apples_left"].tolist() == [[1, 1, 1]]


def test_zapped_agents_return_at_free_spawns_and_beams_block():
    core = at([(1, 1), (3, 1), (4, 0)], [0, 0, 0], 300)
    *_, info = core.step(torch.tensor([[ZAP, STAY, STAY]]).expand(300, 3))
    state = core.world_state
    assert info["hits"].tolist() == [[0, 1, 0]] * 300
    assert state["grid"][0, 2, :3].tolist() == [BEAM] * 3
    assert state["position"][0, 1].tolist() == [3, 1]
    next_cell = state["next_position"][:, 1]
    assert (next_cell[:, 0] == 4).all()
    assert next_cell[:, 1].unique().tolist() == [1, 2], "the third agent is at the spawn in column 0"
    assert state["next_heading"][:, 1].unique().tolist() == [0, 1, 2]
    core.step(torch.tensor([[UP, STAY, STAY]]).expand(300, 3))
    assert state["position"][0, 0].tolist() == [1, 1], "a beam is in the way"
    assert torch.equal(state["position"][:, 1], next_cell)
    core.step(torch.tensor([[UP, STAY, STAY]]).expand(300, 3))
    assert state["position"][0, 0].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("eaten", "probability"), [([], 0.025), ([(0, 0)], 0.005), ([(0, 0), (1, 1)], 0.001), ([(0, 0), (1, 1), (0, 1)], 0)]
)
def test_apples_regrow_as_often_as_in_the_original(eaten, probability):
    """A cell in a corner has three apples around, less those that are eaten."""
    worlds, steps = 4000, 12
    layout = {"layout_grid": ("AAA  ", " A   ", "   PP", "   PP", "   PP"), "num_agents": 2}
    core = at([(4, 3), (4, 4)], [0, 0], worlds, **layout)
    grid, grown = core.world_state["grid"], 0
    for _ in range(steps):
        for row, column in [(0, 2), *eaten]:
            grid[:, row, column] = EMPTY
        core.step(torch.full((worlds, 2), STAY))
        grown += int((grid[:, 0, 2] == APPLE).sum())
    expected = probability * worlds * steps
    assert abs(grown - expected) <= 4.5 * expected**0.5


@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_measures_are_those_of_perolat_et_al(schedule):
    """Perolat et al. 2017, "A multi-agent reinforcement learning model of common-pool resource appropriation"."""
    agents, steps = 4, 40
    settings = {"layout_grid": ("AAAA", "AAAA", "PPPP"), "num_agents": agents, "shared_rewards": False}
    core = make_core(ENV, 16, "cpu", seed=1, autoreset="disabled", schedule=schedule, **settings)
    core.reset()
    ate, hit = [], []
    for _ in range(steps):
        previous = core.world_state["hits"].clone()
        _, reward, *_, info = core.step(core.sample_actions())
        ate.append(reward.numpy() / agents)
        hit.append((info["hits"] - previous).numpy())
    ate, hit = np.array(ate), np.array(hit)  # (T, E, A)
    returns, times = ate.sum(0), np.arange(1, steps + 1)[:, None, None]
    assert (returns.max(1) > 1).all()
    gaps = np.abs(returns[:, :, None] - returns[:, None]).sum((1, 2))
    mean_times = (ate * times).sum(0) / np.maximum(returns, 1)
    expected = {
        "efficiency": returns.sum(1) / steps,
        "equality": 1 - gaps / (2 * agents * returns.sum(1)),
        "sustainability": mean_times.mean(1),
        "peace": (agents * steps - hit.sum((0, 2))) / steps,
    }
    for name, values in expected.items():
        np.testing.assert_allclose(info[name].numpy(), np.repeat(values[:, None], agents, 1), 1e-5, err_msg=name)


@pytest.mark.parametrize("time_limit", ["truncation", "termination"])
def test_episode_ends_without_reward(time_limit):
    core = at([(1, 0), (0, 1), (4, 4)], [0, 0, 0], num_inner_steps=1, time_limit=time_limit)
    _, reward, terminated, truncated, info = core.step(torch.tensor([[DOWN, LEFT, STAY]]))
    assert not reward.any()
    assert terminated.all() == (time_limit == "termination")
    assert truncated.all() == (time_limit == "truncation")
    assert info["efficiency"].tolist() == [[2.0] * 3]


def test_starts_use_inner_spawns_first():
    core = make_core(ENV, 2000, "cpu", seed=0)
    core.reset()
    position = core.world_state["position"]
    inner = position[:, :2]
    assert (inner[..., 0] == 6).all()
    assert inner[..., 1].sort(1).values.unique(dim=0).tolist() == [[6, 15]]
    assert abs((inner[:, 0, 1] == 6).float().mean() - 0.5) < 0.05
    cells = position[:, 2:, 0] * 22 + position[:, 2:, 1]
    assert len(cells.unique()) == 60
    assert all(len(set(row)) == 5 for row in cells.tolist())


def test_roles_are_single_agents_unless_rewards_are_shared():
    assert not make_core(ENV, 1, "cpu").definition.roles
    assert make_core(ENV, 1, "cpu", shared_rewards=False).definition.roles["agent_3"] == ("agent_3",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layout_grid": ("AAA", "A", "PPP")}, "layout_grid: expected 3 to 64 rows of equal lengths"),
        ({"layout_grid": "AAA|AxA|PPP"}, "layout_grid: expected the characters W, A, P, Q and spaces, got 'x'"),
        ({"layout_grid": "WWW|PPP|PPP"}, "layout_grid: expected at least one apple A"),
        ({"layout_grid": 7}, "layout_grid: expected rows of text"),
        ({"layout": "closed", "num_agents": 20}, "num_agents: expected at most 19, the number of cells P"),
        ({"map_ASCII": ("AAA",)}, "layout_grid"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core(ENV, 1, "cpu", **settings)
