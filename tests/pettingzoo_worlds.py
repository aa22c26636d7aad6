"""Small worlds as PettingZoo environments, for several test files."""

import numpy as np
import pytest
import toy
from small_environments import SMALL

import gpu_envs


@pytest.fixture
def toys(monkeypatch):
    toy.announce(monkeypatch)


@pytest.fixture
def small(env_id):
    """Make this environment, small."""
    return lambda **config: gpu_envs.parallel_env(env_id, **{**SMALL[env_id], **config})


@pytest.fixture
def turns(env_id):
    """Make this environment, small, as an AEC environment."""
    return lambda **config: gpu_envs.aec_env(env_id, **{**SMALL[env_id], **config})


def sample(env, obs):
    """Return a random legal action per agent, from the generators of the action spaces."""
    masks = {
        agent: observation["action_mask"] if isinstance(observation, dict) else None
        for agent, observation in obs.items()
    }
    return {agent: env.action_space(agent).sample(masks.get(agent)) for agent in env.agents}


def assert_equal(left, right):
    """Assert that nested values have equal keys, types and bits."""
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            assert_equal(left[key], right[key])
    elif isinstance(left, tuple):
        for mine, theirs in zip(left, right, strict=True):
            assert_equal(mine, theirs)
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    else:
        assert left == right
