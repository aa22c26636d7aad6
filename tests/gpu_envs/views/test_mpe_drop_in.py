"""A script written for mpe2 runs after one changed line: ``from gpu_envs.mpe import ...``."""

import copy
import importlib
import pickle
import pkgutil
import textwrap

import mpe2
import numpy as np
import pytest
from pettingzoo.test import api_test, parallel_api_test

import gpu_envs
from gpu_envs import mpe
from gpu_envs.errors import ActionError, ConfigError

NAMES = [name for name, scenario in mpe.SCENARIOS.items() if scenario.id in gpu_envs.list_envs()]
SCRIPT = """
from {package} import {name}

record = []
for continuous in (False, True):
    env = {name}.parallel_env(max_cycles=6, continuous_actions=continuous, benchmark_data=True, render_mode=None)
    record.append((env.metadata["name"], env.possible_agents, env.state_space.shape, env.max_num_agents))
    record.append([(env.observation_space(agent), env.action_space(agent)) for agent in env.possible_agents])
    observations, infos = env.reset(seed=7)
    record.append(infos)
    steps = 0
    while env.agents:
        steps += 1
        actions = {{agent: env.action_space(agent).sample() for agent in env.agents}}
        observations, rewards, terminations, truncations, infos = env.step(actions)
        record.append({{agent: (seen.shape, seen.dtype) for agent, seen in observations.items()}})
        record.append((sorted(rewards), terminations, truncations, env.state().shape))
        record.append({{agent: list(info) for agent, info in infos.items()}})
    record.append(steps)
    env.close()

env = {name}.env(max_cycles=3)
env.reset(seed=1)
for agent in env.agent_iter():
    observation, reward, termination, truncation, info = env.last()
    record.append((agent, observation.shape, termination, truncation))
    env.step(None if termination or truncation else env.action_space(agent).sample())
env.close()
"""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "simple_spread_v3")) for name in NAMES]
)
def test_mpe2_script_runs_unchanged(name):
    """Deterministic results of a script are equal for both packages."""
    record = []
    for package in ("mpe2", "gpu_envs.mpe"):
        space = {}
        exec(textwrap.dedent(SCRIPT.format(package=package, name=name)), space)
        record.append(space["record"])
    assert len(record[0]) > 30
    assert record[0] == record[1]


def test_modules_equal_mpe2s():
    """Any form of import works with both packages. Folders of mpe2 are not for its users."""
    modules = {module.name for module in pkgutil.iter_modules(mpe2.__path__) if not module.ispkg}
    assert modules == {*mpe.SCENARIOS, "all_modules"}
    for name in modules:
        ours, original = (importlib.import_module(f"{package}.{name}") for package in ("gpu_envs.mpe", "mpe2"))
        assert getattr(mpe, name) is ours
        assert all(hasattr(ours, exported) for exported in getattr(original, "__all__", ()))
    ours, original = mpe.all_modules.mpe_environments, importlib.import_module("mpe2.all_modules").mpe_environments
    assert list(ours) == list(original)
    for name, module in ours.items():
        assert f"mpe/{module.__name__.rpartition('.')[2]}" == name


@pytest.mark.parametrize("name", mpe.SCENARIOS)
def test_each_module_has_its_scenario(name):
    space = {}
    exec(f"from gpu_envs.mpe.{name} import env, parallel_env, raw_env", space)
    for function in (space["env"], space["parallel_env"], space["raw_env"]):
        assert function.__self__ is mpe.SCENARIOS[name]
    assert mpe.SCENARIOS[name].id.removesuffix("-v0").lower() == name.rpartition("_")[0].replace("_", "")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("collect_treasure_v1", "simple_formation_v1")))
        for name in NAMES
    ],
)
def test_pettingzoo_tests_pass(name):
    scenario = getattr(mpe, name)
    parallel_api_test(scenario.parallel_env(max_cycles=10), num_cycles=50)
    api_test(scenario.env(max_cycles=10), num_cycles=30)
    scenario.raw_env().reset()


def test_submodules_and_unknown_names():
    from gpu_envs.envs.mpe import simple_tag
    from gpu_envs.mpe import simple_tag_v3

    assert simple_tag.Config().num_good == 1
    assert simple_tag_v3.parallel_env().metadata["name"] == "simple_tag_v3"
    for name in ("simple_spread_v2", "simple_sprad_v3", "nothing"):
        with pytest.raises(AttributeError, match=name):
            getattr(mpe, name)


def test_settings_are_those_of_mpe2():
    env = mpe.simple_spread_v3.parallel_env(N=2, local_ratio=0.25, num_agent_neighbors=1, seed=3)
    assert env.possible_agents == ["agent_0", "agent_1"]
    with pytest.raises(ConfigError, match="did you mean local_ratio"):
        mpe.simple_spread_v3.parallel_env(local_ration=0.25)


def test_continuous_actions_are_clipped_as_mpe2_does():
    """Actions outside of the box are clipped; non-numeric actions and other shapes raise."""
    env, twin = (mpe.simple_v3.parallel_env(continuous_actions=True, seed=0) for _ in range(2))
    env.reset()
    twin.reset()
    wild, tame = np.array([0.0, -3.0, 7.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0, 0.5, 0.0])
    np.testing.assert_array_equal(env.step({"agent_0": wild})[0]["agent_0"], twin.step({"agent_0": tame})[0]["agent_0"])
    for bad in (np.full(5, np.nan), np.full(4, 2.0), "left", None):
        with pytest.raises(ActionError, match="agent_0"):
            env.step({"agent_0": bad})
    with pytest.raises(ActionError, match="actions: expected a dict"):
        env.step([1])


@pytest.mark.parametrize(("name", "last"), [("simple_spread_v3", 1), ("simple_tag_v3", 2)])
def test_curriculum_stages_can_be_set(name, last):
    env = getattr(mpe, name).parallel_env(curriculum=True)
    env.reset(seed=0)
    stages = [env.unwrapped.curriculum_stage]
    for _ in range(4):
        env.unwrapped.advance_curriculum()
        stages.append(env.curriculum_stage)
    assert stages == [min(step, last) for step in range(5)]
    for stage, want in ((-2, 0), (99, last)):
        env.set_curriculum_stage(stage)
        assert env.curriculum_stage == want
    assert env._world.core.get_params()["curriculum_stage"] == last
    turn_based = getattr(mpe, name).env(curriculum=True)
    turn_based.unwrapped.advance_curriculum()
    assert turn_based.unwrapped.curriculum_stage == 1


def test_missing_curriculum_raises():
    env = mpe.simple_v3.parallel_env()
    assert env.curriculum_stage == 0
    with pytest.raises(ConfigError, match="Simple-v0 has no curriculum; SimpleSpread-v0 and SimpleTag-v0 have one"):
        env.advance_curriculum()


def test_copies_and_pickles():
    env = mpe.simple_tag_v3.parallel_env(max_cycles=9, seed=4)
    first = env.reset()[0]
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert isinstance(twin, mpe.MpeView)
        assert twin._world.core.config == env._world.core.config
        for agent, obs in twin.reset()[0].items():
            np.testing.assert_array_equal(obs, first[agent])


def test_benchmark_data_equals_mpe2s():
    env = mpe.simple_spread_v3.parallel_env(benchmark_data=True)
    env.reset(seed=0)
    *_, infos = env.step(dict.fromkeys(env.agents, 0))
    reward, collisions, distances, covered = infos["agent_1"]["benchmark_data"]
    assert reward == -distances - collisions
    assert covered <= 3
