"""SimpleReference-v0 against mpe2 1.1.1 itself, whole episodes, the state copied across before every step."""

import numpy as np
import pytest
from mpe2 import simple_reference_v3

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5


def make(num_envs=1, seed=0, **settings):
    """Return the core and environments of mpe2 with the same settings."""
    core = make_core("SimpleReference-v0", num_envs, "cpu", seed=seed, autoreset="disabled", **settings)
    return core, simple_reference_v3.parallel_env(**settings)


def set_world(world, state):
    """Goals and words into mpe2's world."""
    for row, agent in enumerate(world.agents):
        agent.state.c = state["said"][row].astype(np.float64)
        agent.goal_b = world.landmarks[state["goal"][row]]
        assert agent.goal_a is world.agents[1 - row]


def count_cases(world, tally, rewards):
    """Goals, words, and how far one is."""
    goals = tuple(world.landmarks.index(agent.goal_b) for agent in world.agents)
    tally["goals", goals] += 1
    for agent in world.agents:
        tally["said", int(np.argmax(agent.state.c))] += 1
        tally["near"] += np.linalg.norm(agent.goal_a.state.p_pos - agent.goal_b.state.p_pos) < 0.1
        tally["fast"] += np.linalg.norm(agent.state.p_vel) > 1.3
    tally["unequal"] += rewards["agent_0"] != rewards["agent_1"]


@mirror.few_or_all
def test_episodes_equal_the_reference(worlds, continuous):
    core, theirs = make(worlds, seed=4, continuous_actions=continuous, benchmark_data=True)
    error, tally = mirror.compare(core, theirs, prepare=mirror.scatter, set_world=set_world, count_cases=count_cases)
    assert error < TOLERANCE, f"largest error {error:.2e}"
    assert (tally["steps"], tally["truncated"], tally["benchmark"]) == (25 * worlds, worlds, 0)
    assert all(tally["goals", (first, second)] > worlds for first in range(3) for second in range(3))
    assert all(tally["said", letter] > 2.5 * worlds for letter in range(10))
    assert tally["near"] > worlds
    assert tally["fast"] > 0.5 * worlds
    assert tally["unequal"] > 15 * worlds


@pytest.mark.parametrize("local_ratio", [0.0, 0.3, 1.0])
def test_local_ratio(local_ratio):
    core, theirs = make(12, local_ratio=local_ratio, max_cycles=9)
    error, tally = mirror.compare(core, theirs, 9, prepare=mirror.scatter, set_world=set_world, count_cases=count_cases)
    assert error < TOLERANCE, f"largest error {error:.2e}"
    assert (tally["unequal"] > 50) == (local_ratio > 0)
    assert tally["truncated"] == 12


def test_initial_states_are_distributed_as_in_the_reference():
    """Entities are in [-1, 1)^2, at rest, silent; goals are uniform and independent."""
    core, _ = make(20_000, seed=3)
    core.reset()
    state = core.world_state
    for row in range(5):
        mirror.assert_uniform(state["pos"][:, row], 1.0)
    mirror.assert_even(3 * state["goal"][:, 0] + state["goal"][:, 1], 9)
    core.step(core.sample_actions())
    assert state["said"].any()
    assert state["vel"].any()
    core.reset()
    assert not state["said"].any()
    assert not state["vel"].any()
