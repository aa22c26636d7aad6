"""Small vector environments of agent rows for tests."""

from functools import partial

import gymnasium
import pytest
import toy
from small_environments import GROUP, SMALL, lenient

from gpu_envs.runtime.factory import LIMIT_NAMES


def small_rows(env_id, num_envs=6, **settings):
    """Return gymnasium.make_vec of a small environment for the agents of its entry in GROUP."""
    small = SMALL[env_id]
    if "max_episode_steps" in settings:  # the limits of the original environments are other names of it
        small = {name: value for name, value in small.items() if name not in LIMIT_NAMES}
    kwargs = {"group": GROUP[env_id], "device": "cpu", **small, **lenient(env_id), **settings}
    return gymnasium.make_vec(f"gpu_envs/{env_id}", num_envs=num_envs, **kwargs)


@pytest.fixture
def many(env_id):
    """Return `small_rows` of each environment in turn."""
    return partial(small_rows, env_id)


@pytest.fixture
def toys(monkeypatch):
    toy.announce(monkeypatch)
