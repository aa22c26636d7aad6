"""The single-world view: PettingZoo's own tests, and what they leave out."""

import copy
import pickle
import re
import warnings
from functools import partial

import gymnasium
import numpy as np
import pettingzoo
import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test, seed_test
from pettingzoo.utils import parallel_to_aec
from pettingzoo_worlds import assert_equal, sample, small, toys  # noqa: F401
from small_environments import BRIEF, SMALL

import gpu_envs
from gpu_envs import mpe
from gpu_envs.definition.registry import list_envs
from gpu_envs.errors import ConfigError, ResetNeededError, UnknownEnvironmentError
from gpu_envs.runtime.factory import LIMIT_NAMES, make_core
from gpu_envs.views.single_env import FIXED

pytestmark = pytest.mark.representative
RENDERED = ("CartPole-v1", "Hanabi-v0", "SimpleTag-v0")


def seen_by(obs):
    """Return the observation of an agent without its mask."""
    return obs["observation"] if isinstance(obs, dict) else obs


def test_pettingzoo_tests_pass(small, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the API test reports half of its findings as warnings
        parallel_api_test(small(), num_cycles=100)
        parallel_seed_test(small, num_cycles=50)


@pytest.mark.filterwarnings("ignore:Agent|Action space|Observation")  # bounds, widths, empty boards, masks
def test_pettingzoo_tests_of_turns_pass(small, capsys):
    """Run the tests on the AEC form; the seed test samples without masks."""
    api_test(parallel_to_aec(small()), num_cycles=50)
    seed_test(lambda: parallel_to_aec(small()), num_cycles=20)


def test_pettingzoo_test_with_masks_passes(toys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(gpu_envs.parallel_env("Toy-v0"), num_cycles=100)


@pytest.mark.parametrize(
    "env_id",
    [pytest.param(env_id, marks=[pytest.mark.slow] * (env_id not in RENDERED)) for env_id in list_envs()],
)
@pytest.mark.usefixtures("hidden_window")
def test_pettingzoo_render_test_passes(small):
    render_test(lambda render_mode: parallel_to_aec(small(render_mode=render_mode)))


def starts_alike(env_id):
    """Return whether every episode starts in the same state, as on an empty board."""
    obs, _ = make_core(env_id, 32, "cpu", **SMALL[env_id]).reset()
    return bool((obs == obs[0]).all())


def test_long_seed_test_passes(small, env_id):
    """All five outputs over many episodes; PettingZoo 1.27's own test looks at one step."""
    first, second, other = small(), small(), small()
    steps = episodes = 0
    differs = False
    for env in (first, second, other):
        for i, agent in enumerate(env.possible_agents):
            env.action_space(agent).seed(i)
    while steps < 80:
        seed = 7 if episodes == 0 else None
        left, right = first.reset(seed=seed), second.reset(seed=seed)
        obs, _ = other.reset(seed=8)
        differs = differs or any(not np.array_equal(seen_by(left[0][a]), seen_by(o)) for a, o in obs.items())
        assert_equal(left[0], right[0])
        assert_equal(left[1], right[1])
        episodes += 1
        while first.agents:
            assert first.agents == second.agents
            actions = sample(first, left[0])
            assert_equal(actions, sample(second, right[0]))
            left, right = first.step(actions), second.step(actions)
            for mine, theirs in zip(left, right, strict=True):
                assert_equal(mine, theirs)
            assert_equal(first.state(), second.state())
            steps += 1
        assert not second.agents
    assert episodes > 5
    assert differs or starts_alike(env_id)


def test_results_equal_the_core(small, small_core, env_id):
    """Equal seeds and actions give the results of core.step by agent, without agents that have left."""
    env, core = small(), small_core(env_id, 1, autoreset="disabled")
    obs, _ = env.reset(seed=3)
    core.reset(seed=3)
    left = 0
    while env.agents:
        acted = list(env.agents)
        action = core.sample_actions()
        shapes = {agent: core.action_spaces[agent].shape or () for agent in acted}
        parts = {agent: action[0, core.possible_agents.index(agent)].numpy() for agent in acted}
        results = env.step(
            {agent: part[: shapes[agent][0]] if shapes[agent] else part for agent, part in parts.items()}
        )
        obs, reward, terminated, truncated, _ = core.step(action)
        for result in results:
            assert list(result) == acted
        for agent in acted:
            row = core.possible_agents.index(agent)
            width = core.observation_spaces[agent].shape[0]
            assert_equal(seen_by(results[0][agent]), obs[0, row, :width].numpy())
            assert results[1][agent] == reward[0, row].item()
            assert results[2][agent] == terminated[0, row].item()
            assert results[3][agent] == truncated[0, row].item()
            assert [type(part[agent]) for part in results[1:]] == [float, bool, bool, dict]
            assert env.observation_space(agent).contains(results[0][agent])
        done = {agent for agent in acted if results[2][agent] or results[3][agent]}
        assert env.agents == [agent for agent in acted if agent not in done]
        left += len(done)
        np.testing.assert_array_equal(env.state(), core.state()[0].numpy())
        assert env.state_space.contains(env.state())
    assert left == env.max_num_agents == len(env.possible_agents)


def test_results_are_copies(small):
    env = small()
    results = [env.reset(seed=0)[0]]
    results.append(env.step(sample(env, results[0]))[0])
    results.append(env.step(sample(env, results[1]))[0])
    copies = copy.deepcopy(results)
    handed = [obs for result in results for obs in result.values()]
    parts = [part for obs in handed for part in (obs.values() if isinstance(obs, dict) else [obs])]
    arrays = [array for part in parts for array in (part if isinstance(part, tuple) else [part])]
    arrays += [env.state(), env.state()]
    for i, values in enumerate(arrays):
        for other in arrays[i + 1 :]:
            assert not np.shares_memory(values, other)
    for array in arrays:
        array += 1
    assert_equal(env.reset(seed=0)[0], copies[0])


def test_metadata_and_spaces(small, env_id):
    env, twin = small(), small()
    assert isinstance(env, pettingzoo.ParallelEnv)
    assert env.unwrapped is env
    assert env.metadata["name"] == env_id == str(env)
    assert env.metadata["is_parallelizable"]
    assert env.metadata["render_modes"] == ["rgb_array", "human"]
    assert env.metadata["render_fps"] > 0
    assert env.agents == []
    assert env.num_agents == 0
    assert len({id(env.action_space(agent)) for agent in env.possible_agents}) == len(env.possible_agents)
    for agent in env.possible_agents:
        assert env.observation_space(agent) is env.observation_space(agent)
        assert env.action_space(agent) is not twin.action_space(agent)  # seeded apart


@pytest.mark.skipif(not hasattr(pettingzoo, "register"), reason="PettingZoo has a registry since 1.27")
def test_pettingzoo_registry_has_all_ids(env_id):
    full = f"gpu_envs/{env_id}"
    assert pettingzoo.spec("parallel", full).entry_point == "gpu_envs.views.pettingzoo:parallel_env"
    env = pettingzoo.make("parallel", full, **SMALL[env_id])
    assert env.metadata["name"] == env_id
    small = {name: value for name, value in SMALL[env_id].items() if name not in LIMIT_NAMES}
    cut = pettingzoo.make("parallel", full, **small, max_cycles=3)
    for i, agent in enumerate(cut.possible_agents):
        cut.action_space(agent).seed(i)
    cuts = 0
    for seed in range(8):
        obs, _ = cut.reset(seed=seed)
        for _ in range(3):
            if cut.agents:
                obs, _, _, truncated, _ = cut.step(sample(cut, obs))
        assert not cut.agents
        cuts += sum(truncated.values())
    assert (cuts > 0) == (env_id not in BRIEF)


def test_max_cycles_is_harmless_as_an_attribute(small):
    env = small()
    limit = env.max_cycles
    env.max_cycles = 10_000
    obs, _ = env.reset(seed=0)
    steps = 0
    while env.agents:
        obs, *_ = env.step(sample(env, obs))
        steps += 1
    assert steps <= limit < 10_000


def test_copies_are_rebuilt_and_need_a_reset(small):
    env = small()
    env.reset(seed=0)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.possible_agents == env.possible_agents
        assert twin.agents == []
        left, right = env.reset(seed=5), twin.reset(seed=5)
        assert_equal(left[0], right[0])
        actions = sample(env, left[0])
        for mine, theirs in zip(env.step(actions), twin.step(actions), strict=True):
            assert_equal(mine, theirs)


def test_steps_outside_an_episode_raise(small):
    env = small()
    with pytest.raises(ResetNeededError, match="before the first reset; call reset"):
        env.step({})
    with pytest.raises(ResetNeededError):
        env.step({agent: env.action_space(agent).sample() for agent in env.possible_agents})
    obs, _ = env.reset()
    while env.agents:
        obs, *_ = env.step(sample(env, obs))
    assert env.step({}) == ({}, {}, {}, {}, {})  # as PettingZoo's own environments, and as SuperSuit expects
    with pytest.raises(ResetNeededError, match=r"all agents have left; call reset\(\)"):
        env.step({agent: env.action_space(agent).sample() for agent in env.possible_agents})
    env.reset()
    env.close()
    env.close()
    with pytest.raises(ResetNeededError, match="closed"):
        env.reset()


def test_single_agent_with_max_cycles_truncates(toys):
    env = gpu_envs.parallel_env("Toy-v0", num_agents=1, masked=False, max_cycles=2)
    env.reset(seed=0)
    results = [env.step({"walker_0": 0}) for _ in range(2)]
    assert results[0][3] == {"walker_0": False}
    assert results[1][3] == {"walker_0": True}


@pytest.mark.parametrize("name", ["num_envs", "autoreset", "reuse_buffers"])
def test_settings_of_batches_raise(name):
    with pytest.raises(ConfigError, match=f"{name} is fixed"):
        gpu_envs.parallel_env("SimpleTag-v0", **{name: 1})


@pytest.mark.parametrize("settings", [{}, {"illegal_actions": "error"}])
@pytest.mark.parametrize("name", ["num", *(f"{name}_" for name in FIXED)])
@pytest.mark.parametrize(
    "make", [partial(gpu_envs.parallel_env, "SimpleTag-v0"), mpe.simple_tag_v3.parallel_env,
             partial(gymnasium.make, "gpu_envs/SimpleTag-v0", agent="agent_0")],
    ids=["parallel_env", "mpe", "gymnasium"],
)  # fmt: skip
def test_unknown_setting_suggests_no_setting_of_batches(make, name, settings):
    with pytest.raises(ConfigError, match=f"unexpected keyword argument '{name}'; ") as caught:
        make(**{name: 3}, **settings)
    suggested = re.findall(r"\w+", str(caught.value).partition(f"'{name}'; ")[2])
    assert suggested
    assert not set(suggested) & set(FIXED)


def test_invalid_arguments_raise():
    with pytest.raises(UnknownEnvironmentError, match="SimpleTag-v0"):
        gpu_envs.parallel_env("SimpelTag-v0")
    with pytest.raises(ConfigError, match="render_mode"):
        gpu_envs.parallel_env("SimpleTag-v0", render_mode="ansi")
    with pytest.raises(ConfigError, match="max_episode_steps"):
        gpu_envs.parallel_env("SimpleTag-v0", max_episode_steps=0)
