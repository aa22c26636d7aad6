"""Presets name environments and algorithms, and are valid settings; environments can register their own."""

from types import MappingProxyType

import pytest
from toy import announce

from gpu_envs.errors import ConfigError, UnknownEnvironmentError
from trainers.config.presets import PRESETS, preset


def test_presets_are_valid():
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


def test_registered_presets_are_copies(monkeypatch):
    env, learner = {"length": 7}, {"gamma": 0.9}
    settings = MappingProxyType({"env": MappingProxyType(env), "learner": learner})
    announce(monkeypatch, presets={("cpu", "ppo"): settings})
    env["length"] = learner["gamma"] = 0
    preset("Toy-v0", "cpu").env["length"] = 1
    config = preset("Toy-v0", "cpu")
    assert (config.env, config.learner.gamma) == ({"length": 7}, 0.9)
    preset("TagContinuous-v0", "cpu").env["num_taggers"] = 1
    assert preset("TagContinuous-v0", "cpu").env["num_taggers"] == 3


def test_key_of_an_unknown_algorithm_is_an_error_where_presets_are_compared(monkeypatch):
    key = ("cpu", "no_module:Learner")
    announce(monkeypatch, presets={key: {}, ("cpu", "pppo"): {}, ("cpu", "ppo"): {"num_envs": 12}})
    assert preset("Toy-v0", "cpu").num_envs == 12
    with pytest.raises(ConfigError, match=r"^Toy-v0: presets: \('cpu', 'pppo'\): no algorithm named 'pppo'"):
        preset("Toy-v0", "cpu", "mappo")


@pytest.mark.parametrize(
    ("presets", "words"),
    [
        (
            [("cpu", "ppo")],
            r"register: presets: expected a dict such as {\('cpu', 'ppo'\): {}}, got \[\('cpu', 'ppo'\)\]",
        ),
        ({("cpu", 1): {}}, r"register: presets: expected keys such as \('cpu', 'ppo'\), got \('cpu', 1\)"),
        ({("cpu", ""): {}}, r"register: presets: expected keys such as \('cpu', 'ppo'\), got \('cpu', ''\)"),
        (
            {("cpu", "ppo"): {"env": 5}},
            r"register: presets: \('cpu', 'ppo'\): env: expected a dict of settings, got 5",
        ),
        (
            {("cpu", "ppo"): {"learner": None}},
            r"register: presets: \('cpu', 'ppo'\): learner: expected a dict of settings, got None",
        ),
        ({("gpu", "ppo"): {}}, r"register: presets: expected keys such as \('cpu', 'ppo'\), got \('gpu', 'ppo'\)"),
        ({"ppo": {}}, r"register: presets: expected keys such as \('cpu', 'ppo'\), got 'ppo'"),
        ({("cpu", "ppo"): 64}, r"register: presets: \('cpu', 'ppo'\): expected a dict of settings, got 64"),
        ({("cpu", "ppo"): {"num_env": 64}}, "Toy-v0: presets: no setting named 'num_env'; did you mean num_envs"),
        (
            {("cpu", "ppo"): {"learner": {"gama": 1.0}}},
            "no setting named 'learner.gama'; did you mean learner.gamma",
        ),
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
