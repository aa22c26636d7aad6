"""SuperSuit over the single-world view: its usual wrappers compose, and lead to vector environments and to SB3."""

import sys
from pathlib import Path

import numpy as np
import pytest
import supersuit
from gymnasium import spaces
from pettingzoo.test import api_test, parallel_api_test
from pettingzoo.utils import parallel_to_aec
from small_environments import SMALL
from stable_baselines3 import PPO

import gpu_envs

sys.path.append(str(Path(__file__).parents[2] / "examples"))
TAG = "TagContinuous-v0"  # agents leave one by one
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def small(env_id="SimpleTag-v0", **settings):
    return gpu_envs.parallel_env(env_id, **{**SMALL[env_id], **settings})


def padded_actions_and_observations(env):
    return supersuit.pad_action_space_v0(supersuit.pad_observations_v0(env))


WRAPPERS = {
    "frames": (lambda env: supersuit.frame_stack_v1(env, 3), {}),
    "frames of a copy": (lambda env: supersuit.frame_stack_v2(env, 3), {}),
    "padding": (padded_actions_and_observations, {"env_id": "SimpleSpeakerListener-v0"}),
    "indicator": (lambda env: supersuit.agent_indicator_v0(supersuit.pad_observations_v0(env)), {}),
    "delay": (lambda env: supersuit.delay_observations_v0(env, 2), {}),
    "sticky actions": (lambda env: supersuit.sticky_actions_v0(env, 0.25), {}),
    "skipped frames": (lambda env: supersuit.frame_skip_v0(env, 2), {}),
    "maximum": (lambda env: supersuit.max_observation_v0(env, 2), {}),
    "flat": (supersuit.flatten_v0, {}),
    "NaN": (supersuit.nan_zeros_v0, {}),
    "dtype": (lambda env: supersuit.dtype_v0(env, np.float16), {"env_id": TAG}),
    "normalized": (lambda env: supersuit.normalize_obs_v0(env, -1, 1), {"env_id": "TagGridworld-v0"}),
    "clipped rewards": (lambda env: supersuit.clip_reward_v0(env, -0.01, 0.01), {"env_id": TAG}),
    "clipped actions": (supersuit.clip_actions_v0, {"continuous_actions": True}),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_results_of_a_wrapper_are_in_its_spaces(wrapper):
    wrap, settings = WRAPPERS[wrapper]
    env = wrap(small(**settings))
    env.reset(seed=0)
    for agent in env.possible_agents:
        env.action_space(agent).seed(0)
    for _ in range(12):
        if not env.agents:
            env.reset()
        actions = {agent: env.action_space(agent).sample() for agent in env.agents}
        obs, rewards, terminations, truncations, _ = env.step(actions)
        assert set(obs) == set(rewards) == set(terminations) == set(truncations) == set(actions)
        for agent, observation in obs.items():
            assert env.observation_space(agent).contains(observation), (agent, observation)


def test_black_death_keeps_dead_agents():
    env = supersuit.black_death_v3(small(TAG))
    env.reset(seed=0)
    zeros = 0
    while env.agents:
        assert env.agents == env.possible_agents
        obs, *_ = env.step({agent: env.action_space(agent).sample() for agent in env.agents})
        zeros += sum(not observation.any() for observation in obs.values())
    assert zeros > 0
    parallel_api_test(supersuit.black_death_v3(small(TAG)), num_cycles=30)


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", TAG])
def test_aec_interface_passes_the_api_test(env_id):
    api_test(supersuit.frame_stack_v1(parallel_to_aec(small(env_id)), 2), num_cycles=40)
    env = supersuit.black_death_v3(parallel_to_aec(small(env_id)))
    env.reset(seed=0)
    for agent in env.agent_iter(60):
        _, _, termination, truncation, _ = env.last()
        env.step(None if termination or truncation else env.action_space(agent).sample())


# ---------------------------------------------------------------- vectors


def make_rows(env=None):
    return supersuit.pettingzoo_env_to_vec_env_v1(supersuit.pad_observations_v0(env or small()))


def test_vectors_of_copied_worlds():
    """Copies must not share a core, so every copy makes its own."""
    rows = supersuit.concat_vec_envs_v1(make_rows(), 3, base_class="gymnasium")
    assert rows.num_envs == 12
    obs, _ = rows.reset(seed=0)
    assert obs.shape == (12, 16)
    ends = 0
    for _ in range(16):
        obs, _, _, truncated, _ = rows.step(np.array([rows.action_space.sample() for _ in range(12)]))
        assert all(rows.observation_space.contains(row) for row in obs)
        ends += int(np.sum(truncated))
    assert ends == 24  # two episodes of seven steps, twelve rows
    worlds = obs.reshape(3, 4, 16)
    assert not np.array_equal(worlds[0], worlds[1])


@pytest.mark.parametrize("base_class", ["gymnasium", "stable_baselines3"])
def test_vectors_over_processes(base_class):
    """Worlds in other processes have the right count and differ from each other."""
    env = supersuit.concat_vec_envs_v1(make_rows(), 4, num_cpus=2, base_class=base_class)
    assert env.num_envs == 16
    env.reset()
    for _ in range(10):  # an episode has seven steps
        obs = env.step(np.array([env.action_space.sample() for _ in range(16)]))[0]
    assert len({world.tobytes() for world in obs.reshape(4, 4, 16)}) == 4
    env.close()


def test_rows_with_deaths_need_black_death():
    rows = make_rows(supersuit.black_death_v3(small(TAG)))
    assert rows.num_envs == 7
    rows.reset(seed=0)
    for _ in range(20):
        rows.step(np.array([rows.action_space.sample() for _ in range(7)]))


def test_sb3_learns_through_supersuit():
    env = supersuit.concat_vec_envs_v1(make_rows(), 3, base_class="stable_baselines3")
    assert isinstance(env.action_space, spaces.Discrete)
    PPO("MlpPolicy", env, n_steps=10, batch_size=60, device="cpu").learn(240)  # it cannot be seeded from here
    env.close()


def test_example_runs_with_small_settings():
    import generic_vector_env as example

    assert example.tensors(8) >= 0
    assert example.one_agent()["l"] == 25
    assert example.turns() == 100
    assert example.vector(4) == (16, 64)
