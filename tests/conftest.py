"""Shared by all tests: one torch thread, since the suite runs on several processes."""

import pytest
import torch

from gpu_envs.config import build_config
from gpu_envs.registry import find, list_envs, make_core

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
    # games
    "ConnectFour-v0": {"rows": 3, "columns": 4, "x_in_row": 3},
    "KuhnPoker-v0": {"num_players": 3},
    "LeducPoker-v0": {},
    "MatrixGame-v0": {
        "payoff": [
            [[[2, 2, 2], [1, 1, -1]], [[1, -1, 1], [0, 3, 3]]],
            [[[-1, 1, 1], [3, 0, 3]], [[3, 3, 0], [4, 4, 4]]],
        ],
        "num_steps": 5,
    },
    "RockPaperScissors-v0": {"num_steps": 6},
    "TicTacToe-v0": {},
}


def lenient(env_id):
    """Settings for tests that draw actions without looking at masks: where agents take turns, a foul loses."""
    kind, build = find(env_id).load()
    return {"illegal": "loss"} if build(build_config(kind, SMALL[env_id], env_id)).rules.turn_based else {}


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
