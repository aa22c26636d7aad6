"""Shared by all tests: one torch thread, since the suite runs on several processes."""

import pytest
import torch

from gpu_envs.registry import list_envs, make_core

torch.set_num_threads(1)

# Small, quick to compile, every rule in play. An entry here is all that the general tests need of an environment.
SMALL = {
    "SimpleTag-v0": {"max_cycles": 7},
    "TagContinuous-v0": {
        "num_taggers": 2,
        "num_runners": 5,
        "grid_length": 2.0,
        "episode_length": 9,
        "num_other_agents_observed": 3,
        "tagging_distance": 0.15,
    },
    "TagGridworld-v0": {"num_taggers": 3, "grid_length": 4, "episode_length": 8},
    # classic control
    "CartPole-v1": {"max_episode_steps": 9},
    "MountainCar-v0": {"max_episode_steps": 8},
    "MountainCarContinuous-v0": {"max_episode_steps": 7},
    "Pendulum-v1": {"max_episode_steps": 6},
    "Acrobot-v1": {"max_episode_steps": 7},
}


@pytest.fixture(params=list_envs())
def env_id(request):
    """Every registered environment in turn."""
    return request.param


@pytest.fixture
def small_core():
    """Function that makes a core of a small configuration."""

    def build(env_id, num_envs=16, **settings):
        return make_core(env_id, num_envs, "cpu", **{"seed": 0, **SMALL[env_id], **settings})

    return build
