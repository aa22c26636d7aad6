"""SimpleCrypto-v0 against mpe2 1.1.1 itself, whole episodes, the state copied across before every step."""

import numpy as np
import torch
from mpe2 import simple_crypto_v3

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5
EVE, BOB, ALICE = range(3)


def make(num_envs=1, seed=0, **settings):
    """Return the core and environments of mpe2 with the same settings."""
    core = make_core("SimpleCrypto-v0", num_envs, "cpu", seed=seed, autoreset="disabled", **settings)
    return core, simple_crypto_v3.parallel_env(**settings)


def set_world(world, state):
    """Goal, key and words into mpe2's world."""
    goal, key = world.landmarks[int(state["goal"])], world.landmarks[int(state["key"])]
    for agent, message in zip(world.agents, state["said"], strict=True):
        agent.goal_a = goal
        agent.state.c = message.astype(np.float64)
    world.agents[BOB].color = goal.color
    world.agents[ALICE].key = key.color


def count_cases(world, tally, rewards):
    """Count messages and correct messages by agent."""
    goal = world.agents[ALICE].goal_a
    tally[f"goal {goal.name}, key {np.argmax(world.agents[ALICE].key)}"] += 1
    for name, agent in zip(("eve", "bob", "alice"), world.agents, strict=True):
        message = agent.state.c
        tally[f"{name} silent"] += not message.any()
        tally[f"{name} right"] += bool((message == goal.color).all())
        tally[f"{name} wrong"] += bool(message.any() and (message != goal.color).any())
    for letter in range(4):
        tally[f"alice says {letter}"] += np.argmax(world.agents[ALICE].state.c) == letter
    tally["paid"] += rewards["alice_0"] > 0
    tally["cost"] += rewards["alice_0"] < 0
    assert rewards["alice_0"] == rewards["bob_0"]


def clear_words(core):
    """Return random words; some are silence, some have one clear letter."""
    rng = torch.Generator().manual_seed(0)

    def act():
        action = core.sample_actions()
        kind = torch.rand(action.shape[:2], generator=rng)
        letter = torch.randint(0, 3, action.shape[:2], generator=rng)
        action[kind < 0.5] = torch.nn.functional.one_hot(letter, 4).float()[kind < 0.5]
        action[kind < 0.2] = 0.0
        return action

    return act


@mirror.few_or_all
def test_episodes_equal_the_reference(worlds, continuous):
    core, theirs = make(worlds, continuous_actions=continuous, benchmark_data=True)
    error, tally = mirror.compare(
        core,
        theirs,
        set_world=set_world,
        count_cases=count_cases,
        act=clear_words(core) if continuous else None,
    )
    assert error < TOLERANCE, f"largest error {error:.2e}"
    assert (tally["steps"], tally["truncated"], tally["benchmark"]) == (25 * worlds, worlds, 75 * worlds)
    for goal in ("landmark 0", "landmark 1"):
        for key in (0, 1):
            assert tally[f"goal {goal}, key {key}"] > 2.5 * worlds
    for name in ("eve", "bob"):
        assert tally[f"{name} right"] > 1.5 * worlds
        assert tally[f"{name} wrong"] > 7.5 * worlds
        assert (tally[f"{name} silent"] > 2.5 * worlds) == continuous
    assert all(tally[f"alice says {letter}"] > 1.5 * worlds for letter in range(4))
    assert tally["paid"] > 2.5 * worlds
    assert tally["cost"] > 2.5 * worlds


def test_short_episodes_without_benchmark_data():
    core, theirs = make(4, max_cycles=7)
    error, tally = mirror.compare(core, theirs, 7, set_world=set_world, count_cases=count_cases)
    assert error < TOLERANCE
    assert tally["truncated"] == 4


def test_initial_states_are_distributed_as_in_the_reference():
    """Goals and keys are uniform and independent; messages are silent."""
    core, _ = make(20_000, seed=3)
    core.reset()
    state = core.world_state
    mirror.assert_even(2 * state["goal"] + state["key"], 4)
    assert not state["said"].any()
    core.step(core.sample_actions())
    assert state["said"].any()
    core.reset()
    assert not state["said"].any()
