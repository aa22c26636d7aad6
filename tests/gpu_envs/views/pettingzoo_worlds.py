"""Actions and comparisons for tests with PettingZoo."""

import numpy as np


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
