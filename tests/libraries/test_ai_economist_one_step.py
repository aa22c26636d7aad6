"""OneStepEconomy-v0 against ai-economist 1.7.1, transition by transition."""

from collections import Counter

import numpy as np
import pytest
from libraries import one_step_economy_oracle as oracle
from libraries.oracle_checks import assert_recorded
from parity.economy.one_step_replay import close, replay

from gpu_envs.envs.economy.one_step import Config
from gpu_envs.runtime.factory import make_core

SETTINGS, STEPS = 45, 500


def test_transitions_with_random_settings_equal_the_original():
    total = Counter()
    for index in range(SETTINGS):
        settings = oracle.random_settings(np.random.default_rng(index), kind=index % len(oracle.KINDS))
        skills, trace = oracle.record(settings, STEPS, index + 1, annealed=index // len(oracle.KINDS) % 2 == 1)
        total += Counter(replay(dict(settings, skills=skills), trace))
    assert total["steps"] == SETTINGS * STEPS > 20_000
    assert total.pop("random rates") > 100
    assert min(total.values()) > 500, total


@pytest.mark.parametrize("kind", range(len(oracle.KINDS)))
def test_starts_equal_the_original(kind):
    settings = oracle.random_settings(np.random.default_rng(kind), kind)
    env = oracle.make(**settings)
    first = oracle.observe(env, env.reset())
    skills = tuple(map(float, env.get_component("SimpleLabor").skills))
    core = make_core("OneStepEconomy-v0", 1, "cpu", seed=0, **dict(settings, skills=skills))
    obs, info = core.reset()
    workers = core.num_agents - 1
    close(obs[0, :workers, : first["worker_obs"].shape[1]], first["worker_obs"])
    close(obs[0, workers], first["planner_obs"])
    close(core.world_state["utility"][0], oracle.state_of(env)["utility"])
    assert info["to_move"][0, :workers].all() == first["workers_free"]
    for agent, row in (("0", 0), ("p", workers)):
        assert info["action_mask"][0, row].sum() == env._generate_masks()[agent].sum() or not first["workers_free"]
    assert core.action_spaces["worker_0"].nvec.tolist() == [env.world.agents[0].action_spaces]
    assert core.action_spaces["planner_0"].nvec.tolist() == env.world.planner.action_spaces.tolist()


def test_skills_are_distributed_as_in_the_original():
    """Means by rank of 1,000 samples, over 40 seeds of both."""
    theirs = []
    for seed in range(40):
        np.random.seed(seed + 1)  # noqa: NPY002
        theirs.append(oracle.make(n_agents=5).get_component("SimpleLabor").skills)
    ours = [Config(n_agents=5, skill_seed=seed).worker_skills for seed in range(40)]
    error = np.std(theirs, 0) / np.sqrt(20.0)
    assert (np.abs(np.mean(theirs, 0) - np.mean(ours, 0)) < 4 * error).all()
    assert (np.abs(np.log(np.std(theirs, 0) / np.std(ours, 0))) < 0.6).all()


def test_recorded_traces_are_those_of_the_original(tmp_path):
    oracle.record_all(tmp_path / "trace.npz.xz")
    assert_recorded(tmp_path / "trace.npz.xz", oracle.TRACE)
