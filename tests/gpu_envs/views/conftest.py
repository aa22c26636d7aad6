"""Fixtures of small environments as views."""

import gymnasium
import pytest
from small_environments import SMALL, group_of, lenient

import gpu_envs
from gpu_envs.runtime.factory import LIMIT_NAMES


@pytest.fixture
def many(env_id):
    """Make rows of the agents of an environment's `group_of`, small."""

    def make(num_envs=6, **settings):
        small = SMALL[env_id]
        if "max_episode_steps" in settings:  # the limits of the original environments are other names of it
            small = {name: value for name, value in small.items() if name not in LIMIT_NAMES}
        settings = {"group": group_of(env_id), "device": "cpu", **small, **lenient(env_id), **settings}
        return gymnasium.make_vec(f"gpu_envs/{env_id}", num_envs=num_envs, **settings)

    return make


@pytest.fixture
def small(env_id):
    """Make this environment for PettingZoo, small."""
    return lambda **config: gpu_envs.parallel_env(env_id, **{**SMALL[env_id], **config})


@pytest.fixture
def turns(env_id):
    """Make this environment, small, as an AEC environment."""
    return lambda **config: gpu_envs.aec_env(env_id, **{**SMALL[env_id], **config})
