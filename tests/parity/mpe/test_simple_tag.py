"""SimpleTag-v0 against mpe2 1.1.1 itself, episode by episode, with the state copied across before every step."""

import numpy as np
import pytest
import torch
from mpe2 import simple_tag_v3
from mpe2.simple_tag import simple_tag

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5


def count_cases(world, tally, rewards):
    """Count touches, good agents beyond the border, speed caps at work, and catches of them all."""
    tally["contacts"] += rewards["adversary_0"] > 0
    good = [agent for agent in world.agents if not agent.adversary]
    tally["bounds"] += any(np.abs(agent.state.p_pos).max() > 0.9 for agent in good)
    speeds = {agent.name: np.linalg.norm(agent.state.p_vel) for agent in world.agents}
    tally["capped"] += any(abs(speeds[agent.name] - agent.max_speed) < 1e-9 for agent in world.agents)
    tally["good capped"] += any(abs(speeds[agent.name] - agent.max_speed) < 1e-9 for agent in good)
    chasers = [agent for agent in world.agents if agent.adversary]
    tally["caught"] += all(
        any(np.linalg.norm(a.state.p_pos - b.state.p_pos) < a.size + b.size for b in chasers) for a in good
    )


def run(num_envs, steps=25, prepare=mirror.closer, **settings):
    core = make_core("SimpleTag-v0", num_envs, "cpu", seed=0, autoreset="disabled", **settings)
    return mirror.compare(core, simple_tag_v3.parallel_env(**settings), steps, prepare=prepare, count_cases=count_cases)


@mirror.few_or_all
def test_episodes_equal_the_reference(worlds, continuous):
    worst, tally = run(worlds, continuous_actions=continuous)
    assert worst < TOLERANCE
    assert tally["steps"] == worlds * 25
    assert tally["truncated"] == worlds
    for case in ("contacts", "bounds", "capped"):
        assert tally[case] > 2.5 * worlds, case


SETTINGS = (
    {
        "num_good": 3,
        "num_adversaries": 4,
        "num_obstacles": 3,
        "num_agent_neighbors": 2,
        "num_landmark_neighbors": 1,
        "benchmark_data": True,
    },
    {"num_good": 3, "num_adversaries": 4, "num_obstacles": 1, "benchmark_data": True},
    {"num_good": 3, "num_agent_neighbors": 2, "num_landmark_neighbors": 1},
    {"num_good": 2, "num_adversaries": 1, "num_obstacles": 0, "continuous_actions": True, "max_cycles": 3},
    {"num_good": 2, "num_agent_neighbors": 9, "num_landmark_neighbors": 9, "continuous_actions": True},
    {"num_obstacles": 0, "num_landmark_neighbors": 2},
    {"num_agent_neighbors": 1, "max_cycles": 1},
)


@pytest.mark.parametrize(("settings", "worlds"), mirror.first_of(SETTINGS, 12, 30), ids=str)
def test_settings_equal_the_reference(settings, worlds):
    cycles = settings.get("max_cycles", 25)
    worst, tally = run(worlds, steps=cycles, **settings)
    assert worst < TOLERANCE
    assert tally["steps"] == worlds * cycles
    assert tally["truncated"] == worlds
    assert tally["contacts"] > 1.5 * worlds or cycles < 25
    assert ("benchmark_data" in settings) == (tally["benchmark"] > 1.5 * worlds)


def test_curriculum_equals_the_reference(monkeypatch):
    """Good agents at half, three quarters and all of their pace, world by world; a new stage waits for the reset."""
    mirror.free_the_stage(monkeypatch, simple_tag.Scenario)
    stages = torch.tensor([0, 1, 2, -1, 5]).repeat(3)
    core = make_core("SimpleTag-v0", 15, "cpu", seed=0, autoreset="disabled", curriculum=True, benchmark_data=True)
    core.set_params(curriculum_stage=stages)

    def prepare(core, step):
        mirror.closer(core, step)
        core.set_params(curriculum_stage=2 - stages if step > 9 else stages)

    def begin(theirs, env):
        theirs.unwrapped.set_curriculum_stage(int(stages[env]))

    theirs = simple_tag_v3.parallel_env(curriculum=True, benchmark_data=True)
    worst, tally = mirror.compare(core, theirs, prepare=prepare, begin=begin, count_cases=count_cases)
    assert worst < TOLERANCE
    assert core.world_state["pace"].tolist() == [0.5, 0.75, 1.0, 0.5, 1.0] * 3
    assert tally["good capped"] > 25


@pytest.mark.parametrize("curriculum", [False, True])
def test_first_stage(curriculum):
    """Without a word from the user mpe2 as it is plays stage 0 with a curriculum, and no stage without."""
    core = make_core("SimpleTag-v0", 10, "cpu", seed=0, autoreset="disabled", curriculum=curriculum)
    theirs = simple_tag_v3.parallel_env(curriculum=curriculum)
    worst, tally = mirror.compare(core, theirs, prepare=mirror.closer, count_cases=count_cases)
    assert worst < TOLERANCE
    assert tally["good capped"] > 20
    assert (core.world_state["pace"] == (0.5 if curriculum else 1.0)).all()


def upon_them(core, step):
    """Place an adversary near every good agent of some worlds in every step: about half of these are caught."""
    rng = np.random.default_rng(step)
    chosen = torch.from_numpy(rng.random(core.num_envs) < 0.4)
    pos, chasers, count = core.world_state["pos"], core.config.num_adversaries, core.num_agents
    core.world_state["vel"][chosen] = 0.0
    away = rng.uniform(-1, 1, (core.num_envs, count - chasers, 2)) * 0.14
    pos[chosen, chasers:count] = pos[chosen, : count - chasers] + torch.from_numpy(away).float()[chosen]


@pytest.mark.parametrize(
    "settings",
    [{}, pytest.param({"num_good": 2, "max_cycles": 5}, marks=pytest.mark.slow), {"max_cycles": 1}],
    ids=str,
)
def test_terminate_on_success(settings):
    """Success ends the episode; at the time limit it is a truncation."""
    cycles = settings.get("max_cycles", 25)
    worst, tally = run(100, steps=cycles, prepare=upon_them, terminate_on_success=True, **settings)
    assert worst < TOLERANCE
    assert tally["terminated"] + tally["truncated"] == 100
    assert tally["caught"] > (25 if cycles > 1 else 10)
    assert tally["terminated"] > 25 or cycles == 1
    assert tally["truncated"] == 100 or cycles > 1


def test_success_continues_by_default():
    _, tally = run(10, prepare=upon_them)
    assert tally["caught"] > 12
    assert tally["truncated"] == 10


def test_start_distribution():
    """Agents start uniform in [-1, 1)^2, obstacles in [-0.9, 0.9)^2, all at rest; no two worlds alike."""
    core = make_core("SimpleTag-v0", 20_000, "cpu", seed=3)
    core.reset()
    pos = core.world_state["pos"]
    assert not core.world_state["vel"].any()
    for row in range(6):
        mirror.assert_uniform(pos[:, row], 1.0 if row < 4 else 0.9)
    assert len(torch.unique(pos[:, 0], dim=0)) == 20_000
