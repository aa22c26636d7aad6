"""Pursuit-v0 against PettingZoo's pursuit_v4, transition by transition."""

import numpy as np
import pytest
import torch
from libraries import sisl_oracle as oracle
from libraries.oracle_checks import assert_equally_frequent, assert_recorded
from parity.grid.pursuit_replay import replay

import gpu_envs
from gpu_envs.runtime.factory import make_core

STEPS = 300


@pytest.mark.parametrize("kind", range(len(oracle.KINDS)))
def test_transitions_with_random_settings_equal_the_original(kind):
    total = {}
    for seed in range(4):
        settings = oracle.random_settings(np.random.default_rng(10 * kind + seed), kind)
        counts = replay(settings, oracle.record(settings, STEPS, seed))
        total = {name: count + total.get(name, 0) for name, count in counts.items()}
    assert total["steps"] == 4 * STEPS
    assert min(total["moves"], total["truncated"]) > 10, total


def test_default_settings_equal_the_original():
    counts = replay({}, oracle.record({}, 600, 0))
    assert min(counts[name] for name in ("shared cells", "moves", "moves of evaders")) > 100, counts


def test_recorded_trace_is_that_of_the_original(tmp_path):
    oracle.record_all(tmp_path / "trace")
    assert_recorded(tmp_path / "trace", oracle.TRACE)


def test_names_and_spaces_are_those_of_the_original():
    ours, theirs = gpu_envs.parallel_env("Pursuit-v0", cnn=True), oracle.parallel_env()
    assert ours.possible_agents == theirs.possible_agents
    for name in theirs.possible_agents:
        assert ours.observation_space(name) == theirs.observation_space(name)
        assert ours.action_space(name) == theirs.action_space(name)


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_starts_are_distributed_as_those_of_the_original(share):
    """Columns and rows of all pursuers, and distances between neighbors in the order of evaders."""
    settings = dict(x_size=8, y_size=10, n_pursuers=3, n_evaders=3, constraint_window=share)
    core = make_core("Pursuit-v0", 20_000, "cpu", seed=0, **settings)
    core.reset()
    ours = [core.world_state[name].numpy() for name in ("pursuer", "evader")]
    _, inner, _ = oracle.make(**settings)
    inner._seed(0)
    theirs = [[], []]
    for _ in range(600):
        inner.reset()
        for cells, agents in zip(theirs, (inner.pursuers, inner.evaders), strict=True):
            cells.append([agent.current_position() for agent in agents])
    for mine, other in zip(ours, map(np.array, theirs), strict=True):
        for axis in range(2):
            assert_equally_frequent(mine[:, 0, axis], other[:, 0, axis])
            assert_equally_frequent(mine[:, 2, axis], other[:, 2, axis])
        gaps = [np.abs(cells[:, 1] - cells[:, 2]).sum(-1) for cells in (mine, other)]
        assert_equally_frequent(*gaps)
    assert torch.equal(core.world_state["catch_step"], torch.zeros_like(core.world_state["catch_step"]))
