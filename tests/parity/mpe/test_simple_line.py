"""SimpleLine-v0 against mpe2 1.1.1 itself, episode by episode, with the state copied across before every step."""

import numpy as np
import pytest
import torch
from mpe2 import simple_line_v1

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror, targets

ENV = "SimpleLine-v0"
SETTINGS = ({"N": 1, "continuous_actions": True, "max_cycles": 9, "terminate_on_success": True}, *targets.SETTINGS)
"""The quick ones have a single agent, whose target is the start of the line, and continuous actions, whose forces are
those of all scenarios. Ends of six agents are quick in SimpleFormation-v0, which has the same code for them."""


def set_targets(scenario, pos):
    """Set the targets of mpe2, which it keeps from the start of the episode."""
    start, end = pos[-2:]
    count = len(pos) - 2
    scenario._expected_positions = [start + index / max(count - 1, 1) * (end - start) for index in range(count)]


def run(num_envs, **settings):
    return targets.run(ENV, simple_line_v1, num_envs, set_targets, prepare=targets.onto_targets, **settings)


@mirror.few_or_all
def test_episodes_equal_the_reference(worlds, continuous):
    targets.assert_whole_episodes_agree(*run(worlds, continuous_actions=continuous), worlds)


@pytest.mark.parametrize(("settings", "worlds"), mirror.first_of(SETTINGS, 20, 60), ids=str)
def test_settings_equal_the_reference(settings, worlds):
    targets.assert_both_ends_agree(*run(worlds, **settings), worlds)


@pytest.mark.slow
def test_random_settings_equal_the_reference():
    """Together with the other tests these are more than 20,000 steps."""
    total = 0
    for seed in range(10):
        worst, tally = run(140, **targets.random_settings(np.random.default_rng(seed)))
        assert worst < targets.TOLERANCE
        total += tally["steps"]
    assert total > 12_000


@pytest.mark.parametrize("num_agents", [4, pytest.param(64, marks=pytest.mark.slow)])
def test_assignment_is_the_best_one(num_agents):
    """SimpleFormation-v0, which has the same code for it, is quick with 64 agents, too."""
    targets.assert_assignments_are_the_best(ENV, num_agents, 64)


def test_equal_costs_have_the_reward_of_the_reference():
    """Agents behind the end of the line have several best assignments; all of them have one total distance."""
    core = make_core(ENV, 1, "cpu", seed=0, autoreset="disabled")
    theirs = simple_line_v1.parallel_env()
    theirs.reset(seed=0)
    core.reset()
    places = np.array([[0.7, 0.0], [0.9, 0.0], [1.1, 0.0], [1.3, 0.0], [-0.625, 0.0], [0.625, 0.0]])
    core.world_state["pos"][0] = torch.from_numpy(places)
    for entity, position in zip(theirs.unwrapped.world.entities, places, strict=True):
        entity.state.p_pos = position.copy()
    set_targets(theirs.unwrapped.scenario, places)
    reward = core.step(torch.zeros((1, 4), dtype=torch.long))[1]
    assert reward[0, 0].item() == pytest.approx(theirs.step(dict.fromkeys(theirs.agents, 0))[1]["agent_0"], abs=1e-6)
    assert reward[0, 0].item() == pytest.approx(-1.0, abs=1e-6)


def test_start_distribution():
    core = make_core(ENV, 20_000, "cpu", seed=3)
    core.reset()
    assert not core.world_state["vel"].any()
    for row in range(4):
        mirror.assert_uniform(core.world_state["pos"][:, row], 1.0)
    start, end = core.world_state["pos"][:, 4], core.world_state["pos"][:, 5]
    mirror.assert_uniform(start, 0.25)
    assert end.abs().max() < 1.0
    assert ((end - start).norm(dim=-1) - 1.25).abs().max() < 1e-6


def test_directions_are_distributed_as_in_the_reference():
    """Chi-square of twelve directions of the line: directions that leave the arena turn by 5 degrees at a time."""
    core = make_core(ENV, 40_000, "cpu", seed=5)
    core.reset()
    lines = (core.world_state["pos"][:, 5] - core.world_state["pos"][:, 4]).numpy()
    theirs, scenario = simple_line_v1.parallel_env(), simple_line_v1.parallel_env().unwrapped.scenario
    world, rng, reference = theirs.unwrapped.world, np.random.default_rng(0), []
    for _ in range(4000):
        scenario.reset_world(world, rng)
        reference.append(world.landmarks[1].state.p_pos - world.landmarks[0].state.p_pos)
    shares, counts = (
        np.bincount(((np.arctan2(line[:, 1], line[:, 0]) + np.pi) / (2 * np.pi) * 12).astype(int) % 12, minlength=12)
        for line in (lines, np.array(reference))
    )
    expected = shares / shares.sum() * counts.sum()
    assert ((counts - expected) ** 2 / expected).sum() < 11 + 5 * np.sqrt(22)
