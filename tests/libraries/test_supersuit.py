"""SuperSuit over the single-world view: its usual wrappers compose, and lead to vector environments and to SB3."""

import sys
import warnings
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
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo", "ignore::UserWarning:supersuit")


def small(env_id="SimpleTag-v0", **settings):
    return gpu_envs.parallel_env(env_id, **{**SMALL[env_id], **settings})


def play(env, steps=12, seed=0):
    """Step with sampled actions and check what comes against the spaces; the last results."""
    obs, _ = env.reset(seed=seed)
    for agent in env.possible_agents:
        env.action_space(agent).seed(seed)
    for _ in range(steps):
        if not env.agents:
            obs, _ = env.reset()
        obs, rewards, terminations, truncations, _ = env.step(
            {agent: env.action_space(agent).sample() for agent in env.agents}
        )
        assert set(obs) == set(rewards) == set(terminations) == set(truncations)
        for agent, observation in obs.items():
            assert env.observation_space(agent).contains(observation), (agent, observation)
    return obs, rewards


def test_frames_are_stacked():
    env = supersuit.frame_stack_v1(small(), 3)
    assert env.observation_space("agent_0").shape == (42,)
    play(env)
    parallel_api_test(supersuit.frame_stack_v1(small(), 3), num_cycles=20)
    assert play(supersuit.frame_stack_v2(small(), 3))[0] is not None


def test_spaces_are_padded_alike():
    env = supersuit.pad_action_space_v0(supersuit.pad_observations_v0(small("SimpleSpeakerListener-v0")))
    agents = env.possible_agents
    assert len({env.observation_space(agent).shape for agent in agents}) == 1
    assert len({env.action_space(agent).n for agent in agents}) == 1
    play(env)
    parallel_api_test(env, num_cycles=20)


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


def test_rewards_and_actions_are_clipped():
    _, rewards = play(supersuit.clip_reward_v0(small(TAG), -0.01, 0.01), 3)
    assert all(abs(value) <= 0.01 for value in rewards.values())
    env = supersuit.clip_actions_v0(small(continuous_actions=True))
    env.reset(seed=0)
    env.step({agent: np.full(5, 3.0, np.float32) for agent in env.agents})


def test_dtype_and_normalisation():
    env = supersuit.dtype_v0(small(TAG), np.float16)
    obs, _ = play(env)
    assert all(observation.dtype == np.float16 for observation in obs.values())
    bounded = small("TagGridworld-v0")
    space = bounded.observation_space(bounded.possible_agents[0])
    assert np.isfinite(space.low).all()
    assert np.isfinite(space.high).all()
    obs, _ = play(supersuit.normalize_obs_v0(bounded, -1, 1))
    assert all((np.abs(observation) <= 1 + 1e-6).all() for observation in obs.values())


def test_other_wrappers_run():
    for wrap in (
        lambda env: supersuit.agent_indicator_v0(supersuit.pad_observations_v0(env)),
        lambda env: supersuit.delay_observations_v0(env, 2),
        lambda env: supersuit.sticky_actions_v0(env, 0.25),
        lambda env: supersuit.frame_skip_v0(env, 2),
        lambda env: supersuit.max_observation_v0(env, 2),
        supersuit.flatten_v0,
        supersuit.nan_zeros_v0,
    ):
        play(wrap(small()))


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", TAG])
def test_aec_interface_passes_the_api_test(env_id):
    """SuperSuit's wrappers of the AEC interface run, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api_test(parallel_to_aec(small(env_id)), num_cycles=40)
        api_test(supersuit.frame_stack_v1(parallel_to_aec(small(env_id)), 2), num_cycles=40)
    env = supersuit.black_death_v3(parallel_to_aec(small(env_id)))
    env.reset(seed=0)
    for agent in env.agent_iter(60):
        _, _, termination, truncation, _ = env.last()
        env.step(None if termination or truncation else env.action_space(agent).sample())


# ---------------------------------------------------------------- vectors


def vectors(**settings):
    world = supersuit.pad_observations_v0(small(**settings))
    rows = supersuit.pettingzoo_env_to_vec_env_v1(world)
    return supersuit.concat_vec_envs_v1(rows, 3, base_class="stable_baselines3")


def test_vectors_of_copied_worlds():
    """Copies must not share a core, so every copy makes its own."""
    world = supersuit.pad_observations_v0(small())
    rows = supersuit.concat_vec_envs_v1(supersuit.pettingzoo_env_to_vec_env_v1(world), 3, base_class="gymnasium")
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
    rows = supersuit.pettingzoo_env_to_vec_env_v1(supersuit.pad_observations_v0(small()))
    env = supersuit.concat_vec_envs_v1(rows, 4, num_cpus=2, base_class=base_class)
    assert env.num_envs == 16
    env.reset()
    for _ in range(10):  # an episode has seven steps
        obs = env.step(np.array([env.action_space.sample() for _ in range(16)]))[0]
    worlds = obs.reshape(4, 4, 16)
    assert len({world.tobytes() for world in worlds}) == 4
    env.close()


def test_example_runs_with_small_settings():
    import generic_vector_env as example

    assert example.tensors(8) >= 0
    assert example.one_agent()["l"] == 25
    assert example.turns() == 100
    assert example.vector(4) == (16, 64)


def test_rows_with_deaths_need_black_death():
    rows = supersuit.pettingzoo_env_to_vec_env_v1(supersuit.black_death_v3(small(TAG)))
    assert rows.num_envs == 7
    rows.reset(seed=0)
    for _ in range(20):
        rows.step(np.array([rows.action_space.sample() for _ in range(7)]))


def test_sb3_learns_through_supersuit():
    env = vectors()
    assert isinstance(env.action_space, spaces.Discrete)
    PPO("MlpPolicy", env, n_steps=10, batch_size=60, device="cpu").learn(240)  # it cannot be seeded from here
    env.close()
