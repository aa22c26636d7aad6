"""The types of trainer settings are checked before their values."""

import dataclasses

import pytest

from gpu_envs.errors import ConfigError
from trainers.algorithms.on_policy.ppo import PPOConfig


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"normalize_obs": "False"}, "learner.normalize_obs: expected True or False, got 'False'"),
        ({"normalize_obs": 1}, "learner.normalize_obs: expected True or False, got 1"),
        ({"gamma": "0.9"}, "learner.gamma: expected a finite number in .*, got '0.9'"),
        ({"gamma": None}, "learner.gamma: expected a finite number in .*, got None"),
        ({"num_epochs": True}, "learner.num_epochs: expected an int >= 1, got True"),
        ({"num_epochs": 1.5}, "learner.num_epochs: expected an int >= 1, got 1.5"),
        (
            {"rollout_length": 2**70},
            r"learner.rollout_length: expected an int >= 1 of at most 2\*\*63 - 1 in size, got 118059",
        ),
        ({"hidden_sizes": (64, "x")}, r"learner.hidden_sizes\[1\]: expected an int in .*, got 'x'"),
        ({"hidden_sizes": (2**31,)}, r"learner.hidden_sizes\[0\]: expected an int in \[1, 65536\], got 2147483648"),
        ({"activation": 5}, "learner.activation: expected one of 'tanh', 'relu', got 5"),
    ],
)
def test_settings_of_wrong_type_are_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        dataclasses.replace(PPOConfig(), **values)
