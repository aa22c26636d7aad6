"""SimplePush-v0 against mpe2 1.1.1 itself, episode by episode, with the state copied across before every step."""

import numpy as np
import pytest
from mpe2 import simple_push_v3

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5


def set_world(world, state):
    """Copy the goal, and the good agent's color, which is the goal's."""
    goal = int(state["goal"])
    for agent in world.agents:
        agent.goal_a = world.landmarks[goal]
    world.agents[1].color = np.where(np.arange(3) == goal + 1, 0.75, 0.25)


def count_cases(world, tally, rewards):
    """Count contacts, goals and the agents nearer to them."""
    adversary, good = (agent.state.p_pos for agent in world.agents)
    tally["contacts"] += np.linalg.norm(adversary - good) < 0.1
    tally[f"goal {world.agents[1].goal_a.index}"] += 1
    tally["nearer"] += rewards["adversary_0"] > 0
    tally["farther"] += rewards["adversary_0"] < 0


@mirror.few_or_all
def test_episodes_equal_the_reference(worlds, continuous):
    core = make_core("SimplePush-v0", worlds, "cpu", seed=0, autoreset="disabled", continuous_actions=continuous)
    theirs = simple_push_v3.parallel_env(continuous_actions=continuous)
    worst, tally = mirror.compare(core, theirs, prepare=mirror.closer, set_world=set_world, count_cases=count_cases)
    assert worst < TOLERANCE
    assert tally["steps"] == worlds * 25
    assert tally["truncated"] == worlds
    assert tally["contacts"] > worlds
    for case in ("goal 0", "goal 1", "nearer", "farther"):
        assert tally[case] > 5 * worlds, case


@pytest.mark.parametrize("max_cycles", [1, 7])
def test_settings_equal_the_reference(max_cycles):
    """The time limit; and benchmark data, of which mpe2 has none here."""
    settings = {"max_cycles": max_cycles, "benchmark_data": True}
    core = make_core("SimplePush-v0", 10, "cpu", seed=0, autoreset="disabled", **settings)
    worst, tally = mirror.compare(core, simple_push_v3.parallel_env(**settings), steps=max_cycles, set_world=set_world)
    assert worst < TOLERANCE
    assert tally["truncated"] == 10
    assert tally["benchmark"] == 0
    assert core.reset()[1]["benchmark_data"].shape == (10, 2, 0)


def test_colors_are_those_that_mpe2_draws():
    """The colors set by ``set_world`` equal the colors of mpe2's reset."""
    theirs = simple_push_v3.parallel_env()
    goals = set()
    for seed in range(10):
        theirs.reset(seed=seed)
        world = theirs.unwrapped.world
        goal, color = world.agents[1].goal_a.index, world.agents[1].color.copy()
        set_world(world, {"goal": goal})
        np.testing.assert_array_equal(world.agents[1].color, color)
        goals.add(goal)
    assert goals == {0, 1}


def test_start_distribution():
    core = make_core("SimplePush-v0", 20_000, "cpu", seed=3)
    core.reset()
    assert not core.world_state["vel"].any()
    for row in range(4):
        mirror.assert_uniform(core.world_state["pos"][:, row], 1.0)
    assert abs(core.world_state["goal"].float().mean() - 0.5) < 0.01
    assert set(core.world_state["goal"].tolist()) == {0, 1}
