"""CommonsHarvest-v0 against SocialJax, step by step."""

import jax
import numpy as np
from libraries import socialjax_oracle as oracle
from libraries.oracle_checks import assert_recorded
from parity.jax_replay import PATHS

from gpu_envs.runtime.factory import make_core

ENV = "CommonsHarvest-v0"


def test_steps_with_random_settings_equal_the_original():
    total = {}
    for index in range(8):
        counts = oracle.compare(oracle.random_settings(np.random.default_rng(index)), 40, 60, index)[1]
        total = {name: count + total.get(name, 0) for name, count in counts.items()}
    assert total["steps"] > 15_000
    assert min(total["done"], total["rewarded"]) > 100, total


def test_recorded_traces_are_those_of_the_original(tmp_path):
    assert_recorded(oracle.record(tmp_path), PATHS[ENV])


def test_spaces_and_lengths_are_those_of_the_original():
    core, theirs = make_core(ENV, 1, "cpu"), oracle.make({})
    assert len(core.possible_agents) == theirs.num_agents
    assert {space.n for space in core.action_spaces.values()} == {theirs.action_space().n}
    assert {space.shape for space in core.observation_spaces.values()} == {(np.prod(theirs.observation_space()[1]),)}
    assert core.definition.max_episode_steps == theirs.num_inner_steps


def test_starts_are_distributed_as_those_of_the_original():
    """Cells and headings of agents have equal frequencies, for every agent."""
    worlds = 4000
    core = make_core(ENV, worlds, "cpu", seed=0)
    core.reset()
    locations = np.asarray(jax.vmap(oracle.make({}).reset)(jax.random.split(oracle.KEY, worlds))[1].agent_locs)
    mine = core.world_state["position"].numpy(), core.world_state["heading"].numpy()
    for agent in range(7):
        for axis in range(2):
            ours, theirs = (values[:, agent, axis] for values in (mine[0], locations))
            shares = [np.bincount(values, minlength=22) / worlds for values in (ours, theirs)]
            assert np.abs(shares[0] - shares[1]).max() < 0.05
        shares = [np.bincount(values, minlength=4) / worlds for values in (mine[1][:, agent], locations[:, agent, 2])]
        assert np.abs(shares[0] - shares[1]).max() < 0.05
