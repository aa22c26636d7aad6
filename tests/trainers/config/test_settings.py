"""Settings: dependencies between them, and recorded configurations without newer settings."""

import dataclasses
import json
from dataclasses import dataclass

import pytest

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.settings import check_settings, complete_settings, setting
from trainers.algorithms import algorithm_specs
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig


@pytest.mark.parametrize(
    ("algorithm", "values", "line"),
    [
        ("ppo", {"image": (1, 4, 4)}, r"image = \(1, 4, 4\): has no effect with learner.network = 'mlp'; set"),
        ("sac", {"conv_filters": (8,)}, r"conv_filters = \(8,\): has no effect with learner.network = 'mlp'"),
        ("ppo", {"init_log_std": -1.0, "squash": True}, "init_log_std = -1.0: has no effect with learner.squash"),
        (
            "ppo",
            {"target_kl": 0.1, "num_epochs": 1},
            "target_kl = 0.1: has no effect with .* set learner.num_epochs >= 2, or",
        ),
        (
            "qmix",
            {"window": 8},
            "window = 8: has no effect with learner.network = 'mlp'; set learner.network to one of 'gru', ",
        ),
        ("vdn", {"burn_in": 7}, "burn_in = 7: has no effect with learner.network = 'mlp'"),
        ("dqn", {"window": 8}, "window = 8: has no effect with learner.network = 'mlp'"),
        ("sac", {"burn_in": 7}, "burn_in = 7: has no effect with learner.network = 'mlp'"),
        ("vdn", {"mixer_width": 8}, "mixer_width = 8: has no effect with learner.mixer = 'vdn'"),
        ("dqn", {"priority_alpha": 0.7}, "priority_alpha = 0.7: has no effect with learner.prioritized = False"),
        ("dqn", {"priority_beta": 0.7}, "priority_beta = 0.7: has no effect with learner.prioritized = False"),
        ("ddpg", {"target_noise_clip": 0.3}, "target_noise_clip = 0.3: has no effect with learner.target_noise = 0.0"),
        ("sac", {"target_share": 0.9, "target_entropy": 1.0}, "target_share = 0.9: .* learner.target_entropy = None"),
        ("sac", {"target_entropy": 1.0, "learn_temperature": False}, "target_entropy = 1.0: .* learner.learn_temp"),
    ],
)
def test_setting_without_effect_is_refused(algorithm, values, line):
    with pytest.raises(ConfigError, match=f"^learner.{line}.*leave .* out$") as caught:
        algorithm_specs.find(algorithm).settings(**values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("algorithm", "values"),
    [
        ("ppo", {"image": (1, 4, 4), "network": "cnn"}),
        ("ppo", {"target_kl": 0.1}),
        ("qmix", {"window": 16, "burn_in": 3, "network": "gru", "mixer_width": 8}),
        ("dqn", {"prioritized": True, "priority_alpha": 0.7}),
        ("ddpg", {"target_noise_clip": 0.5}),  # default values
        ("sac", {"target_share": 0.9}),
    ],
)
def test_setting_with_effect_is_accepted(algorithm, values):
    settings = algorithm_specs.find(algorithm).settings(**values)
    assert values.items() <= vars(settings).items()


@pytest.mark.parametrize("algorithm", algorithm_specs.ALGORITHMS)
def test_requirements_name_existing_settings(algorithm):
    fields = dataclasses.fields(algorithm_specs.find(algorithm).config_type)
    assert {name for field in fields for name in field.metadata.get("requires", {})} <= {field.name for field in fields}


@dataclass(frozen=True)
class Now:
    """Settings of a learner; `late` and `other` were added after some runs."""

    rate: float = setting(0.1, gt=0)
    kind: str = setting("new", choices=("old", "new"))
    other: int = setting(3, ge=1, requires={"kind": "new"})


def test_missing_setting_gets_its_default():
    assert complete_settings(Now, {"kind": "new", "other": 4}) == {"rate": 0.1, "kind": "new", "other": 4}
    check_settings(Now())


def test_recorded_setting_without_effect_gets_its_default():
    assert complete_settings(Now, {"rate": 0.5, "kind": "old", "other": 4}) == {"rate": 0.5, "kind": "old", "other": 3}


def recorded(**learner):
    data = json.loads(json.dumps(dataclasses.asdict(TrainConfig("Corridor", algorithm="qmix"))))
    data["learner"] |= learner
    return data


def test_recorded_configurations_load_after_new_settings_and_checks():
    data = recorded(window=20, mixer_width=8)
    for name in ("burn_in", "double", "hidden_sizes"):
        del data["learner"][name]
    for name in ("patience", "until_return", "cuda_graph"):
        del data[name]
    config = TrainConfig.from_json(data)
    assert config == TrainConfig("Corridor", algorithm="qmix", learner=dataclasses.replace(config.learner, window=16))
    assert (config.learner.mixer_width, config.learner.window, config.learner.hidden_sizes) == (8, 16, (64, 64))


def test_unknown_recorded_settings_are_refused():
    with pytest.raises(CheckpointError, match=r"learner: expected the fields .*, got also 'windows'$"):
        TrainConfig.from_json(recorded(windows=20))
    data = recorded()
    del data["env_id"]
    with pytest.raises(CheckpointError, match=r"expected a field 'env_id', got none$"):
        TrainConfig.from_json(data)


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
