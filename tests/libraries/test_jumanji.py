"""Connector-v0 against Jumanji 1.1.2, step by step."""

import jax
import numpy as np
import pytest
from libraries import jax_steps
from libraries import jumanji_oracle as oracle
from libraries.oracle_checks import assert_recorded
from parity.jax_replay import PATHS

from gpu_envs.runtime.factory import make_core

ENV = "Connector-v0"
BOARDS = 4000


def test_steps_with_random_settings_equal_the_original():
    total = {}
    for index in range(8):
        settings = oracle.random_settings(np.random.default_rng(index))
        counts = jax_steps.compare(oracle.connector(settings), ENV, settings, 160, 40, index)[1]
        total = {name: count + total.get(name, 0) for name, count in counts.items()}
    assert total["steps"] > 10_000
    assert min(total.values()) > 100, total


def test_default_settings_equal_the_original():
    counts = jax_steps.compare(oracle.connector({}), ENV, {}, 100, 50, 0)[1]
    assert counts["steps"] > 2000


def test_recorded_traces_are_those_of_the_original(tmp_path):
    assert_recorded(oracle.record(tmp_path), PATHS[ENV])


def test_spaces_and_lengths_are_those_of_the_original():
    core, theirs = make_core(ENV, 1, "cpu"), oracle.make({})
    assert len(core.possible_agents) == theirs.num_agents
    assert {space.n for space in core.action_spaces.values()} == set(theirs.action_spec.num_values.tolist())
    assert core.definition.max_episode_steps == theirs.time_limit


@pytest.mark.parametrize(
    "settings",
    [{}, {"grid_size": 5, "num_agents": 3, "temperature": 0.5, "max_walk_steps": 6}, {"generator": "uniform"}],
)
def test_starts_are_distributed_as_those_of_the_original(settings):
    """Distances between heads and targets, and the share of legal moves, have equal means for every agent."""
    core = make_core(ENV, BOARDS, "cpu", seed=0, **settings)
    core.reset()
    mine = {name: core.world_state[name].numpy() for name in ("position", "target")}
    masks = core.action_mask.numpy()
    state = jax.jit(jax.vmap(oracle.make(settings)._generator))(jax.random.split(jax.random.PRNGKey(0), BOARDS))
    theirs = {name: np.asarray(getattr(state.agents, name)) for name in ("position", "target")}
    gaps = [np.abs(cells["position"] - cells["target"]).sum(-1) for cells in (mine, theirs)]
    assert np.abs(gaps[0].mean(0) - gaps[1].mean(0)).max() < 0.35  # four standard errors of the longest walks
    for gap in range(1, 8):
        assert abs((gaps[0] == gap).mean() - (gaps[1] == gap).mean()) < 0.02, gap
    legal = [masks.mean((0, 1)), np.asarray(state.action_mask).mean((0, 1))]
    assert np.abs(legal[0] - legal[1]).max() < 0.02
