"""Presets name environments and algorithms, and are valid settings; environments can register their own."""

import pytest
from toy import announce

from gpu_envs.errors import ConfigError, UnknownEnvironmentError
from trainers.config.off_policy_presets import OFF_POLICY_PRESETS
from trainers.config.on_policy_presets import ON_POLICY_PRESETS
from trainers.config.presets import PRESETS, preset


def test_presets_are_valid():
    assert not ON_POLICY_PRESETS.keys() & OFF_POLICY_PRESETS.keys()
    for env_id, kind, algorithm in PRESETS:
        config = preset(env_id, f"{kind}:0" if kind == "cuda" else kind, algorithm)
        assert (config.env_id, config.algorithm) == (env_id, algorithm)
        assert config.total_steps > 10 * config.num_envs * config.learner.rollout_length
    assert preset("ConnectFour-v0", "cuda:1").num_envs == 2048
    with pytest.raises(UnknownEnvironmentError, match="no environment named 'Unknown-v0'"):
        preset("Unknown-v0", "cpu")


def test_registered_presets_are_those_of_the_environment(monkeypatch):
    ppo = {"env": {"length": 7}, "num_envs": 12, "total_steps": 34_567, "learner": {"gamma": 0.9}}
    announce(monkeypatch, presets={("cpu", "ppo"): ppo, ("cpu", "dqn"): {"num_envs": 3}})
    config = preset("Toy-v0", "cpu")
    assert (config.env, config.num_envs, config.total_steps) == ({"length": 7}, 12, 34_567)
    assert config.learner.gamma == 0.9
    assert preset("Toy-v0", "cpu", "mappo").learner.gamma == 0.9  # of the same class of settings
    of_dqn = preset("Toy-v0", "cpu", "dqn")
    assert (of_dqn.env, of_dqn.num_envs) == ({"length": 7}, 3)  # one game for all algorithms
    assert preset("Toy-v0", "cuda").num_envs == 2048


@pytest.mark.parametrize(
    ("presets", "words"),
    [
        ({("gpu", "ppo"): {}}, r"register: presets: expected keys such as \('cpu', 'ppo'\), got \('gpu', 'ppo'\)"),
        ({"ppo": {}}, r"register: presets: expected keys such as \('cpu', 'ppo'\), got 'ppo'"),
        ({("cpu", "ppo"): 64}, r"register: presets: \('cpu', 'ppo'\): expected a dict of settings, got 64"),
        ({("cpu", "ppo"): {"num_env": 64}}, "Toy-v0: presets: no setting named 'num_env'; did you mean num_envs"),
        ({("cpu", "ppo"): {"learner": {"gama": 1.0}}}, "presets: learner: no setting named 'gama'; did you mean gamma"),
        ({("cpu", "ppo"): {"num_envs": -1}}, "num_envs: expected an int >= 1, got -1"),
    ],
    ids=str,
)
def test_invalid_presets_are_refused(monkeypatch, presets, words):
    def register_and_read():
        announce(monkeypatch, presets=presets)
        preset("Toy-v0", "cpu")

    with pytest.raises(ConfigError, match=words):
        register_and_read()
