"""SimpleWorldComm-v0 against mpe2 1.1.1 itself, whole episodes, the state copied across before every step."""

import numpy as np
import pytest
import torch
from mpe2 import simple_world_comm_v3

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5
VARIANTS = {
    "many agents": {"num_good": 3, "num_adversaries": 3, "num_obstacles": 2, "num_food": 3, "num_forests": 3},
    "duel": {"num_good": 1, "num_adversaries": 1, "num_obstacles": 0, "num_food": 1, "num_forests": 0},
    "leader alone": {"num_good": 2, "num_adversaries": 1, "num_obstacles": 0, "num_food": 1, "num_forests": 1},
}


def make(num_envs=1, seed=0, **settings):
    """Return the core and environments of mpe2 with the same settings."""
    core = make_core("SimpleWorldComm-v0", num_envs, "cpu", seed=seed, autoreset="disabled", **settings)
    return core, simple_world_comm_v3.parallel_env(**settings)


def set_world(world, state):
    """The leader's words into mpe2's world."""
    world.agents[0].state.c = state["said"][0].astype(np.float64)


def count_cases(world, tally, rewards):
    """Count touches, forests, food, borders, messages, and agents visible to adversaries."""
    count, hunters = len(world.agents), sum(agent.adversary for agent in world.agents)
    forests = len(world.entities) - len(world.forests)
    food = forests - len(world.food)
    pos = np.array([entity.state.p_pos for entity in world.entities])
    size = np.array([entity.size for entity in world.entities])
    touch = np.sqrt(np.square(pos[:, None] - pos).sum(-1)) < size[:, None] + size
    tally["tagged"] += bool(touch[:hunters, hunters:count].any())
    tally["pushed"] += bool(np.triu(touch[:food, :food], 1).any())
    tally["fed"] += bool(touch[hunters:count, food:forests].any())
    away = np.abs(pos[hunters:count])
    tally["near the border"] += bool(((away > 0.9) & (away < 1)).any())
    tally["outside"] += bool((away > 1).any())
    for agent in world.agents:
        tally["capped"] += abs(np.sqrt(np.square(agent.state.p_vel).sum()) - agent.max_speed) < 1e-9
    inside = touch[:count, forests:]
    covered = inside.any(1)
    tally["in a forest"] += covered.sum()
    tally["in two forests"] += (inside.sum(1) > 1).sum()
    for good in range(hunters, count):
        mine, shared = covered[1:hunters], (inside[1:hunters] & inside[good]).any(1)
        tally["seen in the open"] += 0 if covered[good] else (~mine).sum()
        tally["out of sight from a forest"] += 0 if covered[good] else mine.sum()
        tally["hidden in a forest"] += (~mine).sum() if covered[good] else 0
        tally["seen in one forest"] += shared.sum()
        tally["hidden in another forest"] += (mine & ~shared).sum() if covered[good] else 0
        tally["leader sees all the same"] += bool(covered[good] or covered[0]) and not (inside[0] & inside[good]).any()
    tally["said", int(np.argmax(world.agents[0].state.c))] += 1


@pytest.mark.parametrize(
    ("continuous", "worlds"),
    [(False, 12), *(pytest.param(value, 200, marks=pytest.mark.slow) for value in (False, True))],
    ids=["few", "discrete", "continuous"],
)
def test_episodes_equal_the_reference(continuous, worlds):
    core, theirs = make(worlds, continuous_actions=continuous, benchmark_data=True)
    error, tally = mirror.compare(core, theirs, prepare=mirror.scatter, set_world=set_world, count_cases=count_cases)
    assert error < TOLERANCE, f"largest error {error:.2e}"
    assert (tally["steps"], tally["truncated"]) == (25 * worlds, worlds)
    assert tally["benchmark"] > 2.5 * worlds
    share = worlds / 200
    for case, least in {
        "tagged": 500,
        "pushed": 1000,
        "fed": 100,
        "capped": 500,
        "in a forest": 5000,
        "in two forests": 1000,
        "near the border": 300,
        "outside": 500,
        "seen in the open": 5000,
        "seen in one forest": 2000,
        "hidden in a forest": 2000,
        "out of sight from a forest": 2000,
        "hidden in another forest": 200,
        "leader sees all the same": 1000,
    }.items():
        assert tally[case] > share * least, case
    assert all(tally["said", letter] > share * 500 for letter in range(4))


@pytest.mark.parametrize(("variant", "worlds"), mirror.first_of(list(VARIANTS), 10, 30))
def test_other_numbers_of_entities(variant, worlds):
    core, theirs = make(worlds, max_cycles=11, **VARIANTS[variant])
    error, tally = mirror.compare(
        core, theirs, 11, prepare=mirror.scatter, set_world=set_world, count_cases=count_cases
    )
    assert error < TOLERANCE, f"largest error {error:.2e}"
    assert tally["truncated"] == worlds
    assert tally["tagged"] > worlds // 6
    assert tally["fed"] > 1
    assert (tally["in a forest"] > 50) == (variant != "duel")


@pytest.mark.slow
def test_initial_states_are_distributed_as_in_the_reference():
    """Agents in [-1, 1)^2, at rest; obstacles, food and forests in [-0.9, 0.9)^2; the leader silent."""
    core, _ = make(20_000, seed=3)
    core.reset()
    state = core.world_state
    for row in range(11):
        mirror.assert_uniform(state["pos"][:, row], 1.0 if row < 6 else 0.9)
    for _ in range(2):
        core.step(core.sample_actions())
    assert state["said"].any()
    assert state["vel"].any()
    core.reset()
    assert not state["said"].any()
    assert not state["vel"].any()
    for forest in range(2):  # what hides is known at once
        gap = (state["pos"][:, 0] - state["pos"][:, 9 + forest]).norm(dim=1)
        assert torch.equal(state["inside"][:, 0, forest], gap < 0.375)
