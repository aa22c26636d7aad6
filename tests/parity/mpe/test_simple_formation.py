"""SimpleFormation-v0 against mpe2 1.1.1 itself, episode by episode, with the state copied across before every step."""

import math

import numpy as np
import pytest
import torch
from mpe2 import simple_formation_v1

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror, targets

ENV = "SimpleFormation-v0"


def run(num_envs, **settings):
    return targets.run(ENV, simple_formation_v1, num_envs, prepare=targets.onto_targets, **settings)


@mirror.few_or_all
def test_episodes_equal_the_reference(worlds, continuous):
    targets.assert_whole_episodes_agree(*run(worlds, continuous_actions=continuous), worlds)


@pytest.mark.parametrize(("settings", "worlds"), mirror.first_of(targets.SETTINGS, 20, 60), ids=str)
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


@pytest.mark.parametrize(("num_agents", "worlds"), [(4, 64), (64, 8)])
def test_assignment_is_the_best_one(num_agents, worlds):
    targets.assert_assignments_are_the_best(ENV, num_agents, worlds)


def test_equal_costs_have_the_reward_of_the_reference():
    """Agents that mirror each other have several best assignments; all of them have one total distance."""
    core = make_core(ENV, 1, "cpu", seed=0, autoreset="disabled")
    theirs = simple_formation_v1.parallel_env()
    theirs.reset(seed=0)
    core.reset()
    corners = [[0.6, 0.6], [-0.6, 0.6], [-0.6, -0.6], [0.6, -0.6], [0.0, 0.0]]
    core.world_state["pos"][0] = torch.tensor(corners)
    for entity, corner in zip(theirs.unwrapped.world.entities, corners, strict=True):
        entity.state.p_pos = np.array(corner)
    reward = core.step(torch.zeros((1, 4), dtype=torch.long))[1]
    assert reward[0, 0].item() == pytest.approx(theirs.step(dict.fromkeys(theirs.agents, 0))[1]["agent_0"], abs=1e-6)
    assert reward[0, 0].item() == pytest.approx(-(0.6 * math.sqrt(2) - 0.5), abs=1e-6)


def test_positions_that_are_not_finite_end_the_step():
    """The reward is NaN, and other worlds are unharmed."""
    core = make_core(ENV, 2, "cpu", seed=0)
    core.reset()
    core.world_state["pos"][0, 1] = torch.nan
    reward = core.step(core.sample_actions())[1]
    assert reward[0].isnan().all()
    assert reward[1].isfinite().all()


def test_start_distribution():
    core = make_core(ENV, 20_000, "cpu", seed=3)
    core.reset()
    assert not core.world_state["vel"].any()
    for row in range(4):
        mirror.assert_uniform(core.world_state["pos"][:, row], 1.0)
    mirror.assert_uniform(core.world_state["pos"][:, 4], 0.5)
