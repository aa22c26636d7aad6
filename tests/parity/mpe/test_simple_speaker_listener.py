"""SimpleSpeakerListener-v0 against mpe2 1.1.1 itself, whole episodes, the state copied across before every step."""

from functools import partial

import numpy as np
from mpe2 import simple_speaker_listener_v4

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5


def make(num_envs=1, seed=0, **settings):
    """Return the core and environments of mpe2 with the same settings."""
    core = make_core("SimpleSpeakerListener-v0", num_envs, "cpu", seed=seed, autoreset="disabled", **settings)
    return core, simple_speaker_listener_v4.parallel_env(**settings)


def set_world(world, state):
    """The goal and the speaker's words into mpe2's world."""
    speaker, listener = world.agents
    speaker.state.c = state["said"][0].astype(np.float64)
    speaker.goal_b = world.landmarks[int(state["goal"])]
    assert speaker.goal_a is listener


def count_cases(world, tally, rewards):
    """Goals, words, and how the listener gets on."""
    speaker, listener = world.agents
    goal = world.landmarks.index(speaker.goal_b)
    tally["goal", goal, "said", int(np.argmax(speaker.state.c))] += 1
    tally["near"] += rewards["listener_0"] > -0.01
    tally["far"] += rewards["listener_0"] < -1.0
    tally["fast"] += np.linalg.norm(listener.state.p_vel) > 1.3
    assert not listener.state.c.any()
    assert not speaker.state.p_vel.any()


@mirror.few_or_all
def test_episodes_equal_the_reference(worlds, continuous):
    core, theirs = make(worlds, continuous_actions=continuous, benchmark_data=True)
    error, tally = mirror.compare(
        core,
        theirs,
        prepare=partial(mirror.scatter, resting=[0]),
        set_world=set_world,
        count_cases=count_cases,
    )
    assert error < TOLERANCE, f"largest error {error:.2e}"
    assert (tally["steps"], tally["truncated"], tally["benchmark"]) == (25 * worlds, worlds, 50 * worlds)
    assert all(tally["goal", goal, "said", letter] > worlds for goal in range(3) for letter in range(3))
    assert tally["near"] > 0.3 * worlds
    assert tally["far"] > 2.5 * worlds
    assert tally["fast"] > 0.5 * worlds


def test_short_episodes_without_benchmark_data():
    core, theirs = make(4, max_cycles=7)
    error, tally = mirror.compare(core, theirs, 7, set_world=set_world, count_cases=count_cases)
    assert error < TOLERANCE
    assert tally["truncated"] == 4


def test_initial_states_are_distributed_as_in_the_reference():
    """Entities are in [-1, 1)^2, at rest, silent; the goal is uniform."""
    core, _ = make(20_000, seed=3)
    core.reset()
    state = core.world_state
    for row in range(5):
        mirror.assert_uniform(state["pos"][:, row], 1.0)
    mirror.assert_even(state["goal"], 3)
    start = state["pos"].clone()
    for _ in range(2):
        core.step(core.sample_actions())
    assert (state["pos"][:, 0] == start[:, 0]).all()
    assert state["said"].any()
    assert state["vel"][:, 1].any()
    core.reset()
    assert not state["said"].any()
    assert not state["vel"].any()
