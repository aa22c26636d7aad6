"""SimpleAdversary-v0 against mpe2 1.1.1 itself, episode by episode, with the state copied across before every step."""

import pytest
from mpe2 import simple_adversary_v3

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5


def set_world(world, state):
    """Copy the goal."""
    for agent in world.agents:
        agent.goal_a = world.landmarks[state["goal"]]


def count_cases(world, tally, rewards):
    """Count goals and the agents nearer to them."""
    goal = world.agents[0].goal_a
    tally[f"goal {world.landmarks.index(goal)}"] += 1
    tally["good agents win"] += rewards["agent_0"] > 0
    tally["the adversary wins"] += rewards["agent_0"] < 0


def run(num_envs, steps=25, **settings):
    core = make_core("SimpleAdversary-v0", num_envs, "cpu", seed=0, autoreset="disabled", **settings)
    theirs = simple_adversary_v3.parallel_env(**settings)
    return mirror.compare(core, theirs, steps, prepare=mirror.closer, set_world=set_world, count_cases=count_cases)


@mirror.few_or_all
def test_episodes_equal_the_reference(worlds, continuous):
    worst, tally = run(worlds, continuous_actions=continuous)
    assert worst < TOLERANCE
    assert tally["steps"] == worlds * 25
    assert tally["truncated"] == worlds
    for case in ("goal 0", "goal 1", "good agents win", "the adversary wins"):
        assert tally[case] > 5 * worlds, case


NEIGHBORS = {"num_agent_neighbors": 1, "num_landmark_neighbors": 2}
SETTINGS = (
    {"N": 5, "benchmark_data": True, "continuous_actions": True} | NEIGHBORS,
    {"N": 5, "benchmark_data": True, "continuous_actions": True},
    {"N": 5} | NEIGHBORS,
    {"N": 1, "max_cycles": 3},
    {"N": 2, "benchmark_data": True},
    {"N": 2, "num_agent_neighbors": 9, "num_landmark_neighbors": 9},
    {"N": 2, "num_landmark_neighbors": 1, "continuous_actions": True},
)


@pytest.mark.parametrize(("settings", "worlds"), mirror.first_of(SETTINGS, 10, 20), ids=str)
def test_settings_equal_the_reference(settings, worlds):
    cycles = settings.get("max_cycles", 25)
    worst, tally = run(worlds, steps=cycles, **settings)
    assert worst < TOLERANCE
    assert tally["steps"] == worlds * cycles
    assert tally["truncated"] == worlds
    assert tally["benchmark"] == ("benchmark_data" in settings) * (settings["N"] + 1) * worlds * cycles


def test_start_distribution():
    core = make_core("SimpleAdversary-v0", 20_000, "cpu", seed=3, **SETTINGS[0])
    core.reset()
    assert not core.world_state["vel"].any()
    for row in range(11):
        mirror.assert_uniform(core.world_state["pos"][:, row], 1.0)
    for goal in range(5):
        assert abs((core.world_state["goal"] == goal).float().mean() - 1 / 5) < 0.01
