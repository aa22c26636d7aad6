"""SimpleSpread-v0 against mpe2 1.1.1 itself, episode by episode, with the state copied across before every step."""

import numpy as np
import pytest
import torch
from mpe2 import simple_spread_v3
from mpe2.simple_spread import simple_spread

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5


def count_cases(world, tally, rewards):
    """Count agents in touch, landmarks covered and their neighbors out of order."""
    pos = np.array([entity.state.p_pos for entity in world.entities])
    count = len(world.agents)
    distance = np.linalg.norm(pos[:, None] - pos, axis=-1)
    tally["touches"] += (distance[:count, :count] < 0.3).sum() > count
    tally["covered"] += (distance[count:, :count].min(1) < 0.1).any()
    tally["all covered"] += (distance[count:, :count].min(1) < 0.1).all()


def run(num_envs, steps=25, prepare=mirror.closer, begin=mirror.nothing, **settings):
    core = make_core("SimpleSpread-v0", num_envs, "cpu", seed=0, autoreset="disabled", **settings)
    theirs = simple_spread_v3.parallel_env(**settings)
    return mirror.compare(core, theirs, steps, prepare=prepare, begin=begin, count_cases=count_cases)


@mirror.few_or_all
def test_episodes_equal_the_reference(worlds, continuous):
    worst, tally = run(worlds, continuous_actions=continuous)
    assert worst < TOLERANCE
    assert tally["steps"] == worlds * 25
    assert tally["truncated"] == worlds
    assert min(tally["touches"], tally["covered"]) > 2.5 * worlds, tally


SETTINGS = (
    {
        "N": 5,
        "local_ratio": 0.25,
        "num_agent_neighbors": 1,
        "num_landmark_neighbors": 2,
        "benchmark_data": True,
        "continuous_actions": True,
    },
    {"N": 3, "local_ratio": 0.25, "benchmark_data": True, "continuous_actions": True},
    {"N": 5, "num_agent_neighbors": 1, "num_landmark_neighbors": 2},
    {"N": 1, "max_cycles": 3},
    {"N": 2, "local_ratio": 0.0},
    {"N": 5, "local_ratio": 1.0, "benchmark_data": True},
    {"N": 5, "num_agent_neighbors": 2},
    {"N": 3, "num_landmark_neighbors": 1, "continuous_actions": True},
    {"N": 3, "num_agent_neighbors": 9, "num_landmark_neighbors": 9},
)


@pytest.mark.parametrize(("settings", "worlds"), mirror.first_of(SETTINGS, 10, 20), ids=str)
def test_settings_equal_the_reference(settings, worlds):
    worst, tally = run(worlds, steps=settings.get("max_cycles", 25), **settings)
    assert worst < TOLERANCE
    assert tally["steps"] == worlds * settings.get("max_cycles", 25)
    assert tally["touches"] > 2.5 * worlds or settings["N"] < 5
    if "benchmark_data" in settings:
        assert tally["benchmark"] == tally["steps"] * settings["N"]


def test_curriculum_equals_the_reference(monkeypatch):
    """Collisions are free in stage 0 and cost in stage 1, world by world; out of range counts as the nearest stage."""
    mirror.free_the_stage(monkeypatch, simple_spread.Scenario)
    core = make_core("SimpleSpread-v0", 8, "cpu", seed=0, autoreset="disabled", curriculum=True)
    theirs = simple_spread_v3.parallel_env(curriculum=True)
    stages = torch.zeros(8, dtype=torch.int32)

    def begin(theirs, env):
        theirs.unwrapped.set_curriculum_stage(int(stages[env]))

    for values in ([0] * 8, [1] * 8, [0, 1, -3, 7] * 2):
        stages = torch.tensor(values)
        core.set_params(curriculum_stage=stages if len(set(values)) > 1 else values[0])
        worst, tally = mirror.compare(core, theirs, prepare=mirror.closer, begin=begin, count_cases=count_cases)
        assert worst < TOLERANCE
        assert tally["touches"] > 20


@pytest.mark.parametrize("curriculum", [False, True])
def test_first_stage(curriculum):
    """Without a word from the user mpe2 as it is plays stage 0 with a curriculum, and no stage without."""
    core = make_core("SimpleSpread-v0", 10, "cpu", seed=0, autoreset="disabled", curriculum=curriculum)
    theirs = simple_spread_v3.parallel_env(curriculum=curriculum)
    worst, tally = mirror.compare(core, theirs, prepare=mirror.closer, count_cases=count_cases)
    assert worst < TOLERANCE
    assert tally["touches"] > 25


def onto_landmarks(core, step):
    """Place the agents of some worlds near their landmarks in every step: about half of these cover all landmarks."""
    rng = np.random.default_rng(step)
    chosen = torch.from_numpy(rng.random(core.num_envs) < 0.4)
    pos, count = core.world_state["pos"], core.num_agents
    core.world_state["vel"][chosen] = 0.0
    away = rng.uniform(-0.08, 0.08, (core.num_envs, count, 2)) * rng.choice([1.0, 1.5], (core.num_envs, 1, 1))
    pos[chosen, :count] = pos[chosen, count:] + torch.from_numpy(away).float()[chosen]


@pytest.mark.parametrize(
    "settings", [{}, pytest.param({"N": 2, "max_cycles": 5}, marks=pytest.mark.slow), {"max_cycles": 1}], ids=str
)
def test_terminate_on_success(settings):
    """Success ends the episode; at the time limit it is a truncation."""
    cycles = settings.get("max_cycles", 25)
    worst, tally = run(100, steps=cycles, prepare=onto_landmarks, terminate_on_success=True, **settings)
    assert worst < TOLERANCE
    assert tally["terminated"] + tally["truncated"] == 100
    if cycles > 1:
        assert tally["terminated"] > 25
        assert tally["all covered"] >= tally["terminated"]
    else:
        assert tally["truncated"] == 100
        assert tally["all covered"] > 10


def test_success_continues_by_default():
    _, tally = run(10, prepare=onto_landmarks)
    assert tally["all covered"] > 12
    assert tally["truncated"] == 10


def test_start_distribution():
    core = make_core("SimpleSpread-v0", 20_000, "cpu", seed=3)
    core.reset()
    assert not core.world_state["vel"].any()
    for row in range(6):
        mirror.assert_uniform(core.world_state["pos"][:, row], 1.0)
