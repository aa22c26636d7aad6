"""The types of trainer settings are checked before their values."""

import dataclasses

import pytest

from gpu_envs.errors import ConfigError
from trainers.algorithms.on_policy.ppo import PPOConfig


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"normalize_obs": "False"}, "learner.normalize_obs = 'False': expected True or False"),
        ({"normalize_obs": 1}, "learner.normalize_obs = 1: expected True or False"),
        ({"gamma": "0.9"}, "learner.gamma = '0.9': expected a finite number"),
        ({"gamma": None}, "learner.gamma = None: expected a finite number"),
        ({"num_epochs": True}, "learner.num_epochs = True: expected an int"),
        ({"num_epochs": 1.5}, "learner.num_epochs = 1.5: expected an int"),
        ({"rollout_length": 2**70}, r"learner.rollout_length = 1180591620717411303424: expected an int below 2\*\*63"),
        ({"hidden_sizes": (64, "x")}, r"learner.hidden_sizes = \(64, 'x'\): expected an int"),
        ({"hidden_sizes": (2**31,)}, r"learner.hidden_sizes = \(2147483648,\): expected in \[1, 2\*\*16\]"),
        ({"activation": 5}, "learner.activation = 5: expected a string"),
    ],
)
def test_settings_of_wrong_type_are_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        dataclasses.replace(PPOConfig(), **values)
