import sys

import pytest

import gpu_envs
from gpu_envs.definition import id_modules, registry
from gpu_envs.errors import CheckpointError, ConfigError, UnknownEnvironmentError


@pytest.mark.parametrize(
    ("id", "parts"),
    [
        ("gymnasium:CartPole-v1", ("", "gymnasium:CartPole-v1")),
        ("gymnasium:meet:Meet-v0", ("meet", "gymnasium:meet:Meet-v0")),
        ("pettingzoo:pettingzoo.classic.rps_v2", ("", "pettingzoo:pettingzoo.classic.rps_v2")),
        ("pettingzoo:mpe2.simple_tag_v3", ("mpe2.simple_tag_v3", "pettingzoo:mpe2.simple_tag_v3")),
        ("open_spiel:leduc_poker(players=3)", ("", "open_spiel:leduc_poker(players=3)")),
        ("meet:Meet-v0", ("meet", "Meet-v0")),
    ],
)
def test_modules_that_ids_import(id, parts):
    assert id_modules.split_id(id) == parts


def test_unknown_names_are_one_line():
    for id, message in (
        ("gymnasium:CartPole-v77", "gymnasium:CartPole-v77: Environment version"),
        ("pettingzoo:pettingzoo.classic.chess_v1", "pettingzoo.classic.chess_v1: No module named"),
        ("open_spiel:lduc", "open_spiel:lduc: Unknown game 'lduc'"),
        ("pettingzoo:pettingzoo.utils.env", "expected parallel_env or env in the module"),
    ):
        with pytest.raises(ConfigError, match=message):
            gpu_envs.make_core(id)


def test_a_function_in_a_file_is_called_only_if_its_module_was_named(monkeypatch):
    monkeypatch.setattr(id_modules, "_named", {})
    monkeypatch.setattr(id_modules, "_chosen", set())
    monkeypatch.delitem(sys.modules, "mpe2.simple_crypto_v3", raising=False)
    assert "os" in sys.modules
    with pytest.raises(UnknownEnvironmentError, match="expected 'os' to register 'system'"):
        registry.recorded_id("os:system", "manifest.json")
    with pytest.raises(CheckpointError, match=r"--allow-import mpe2\.simple_crypto_v3"):
        registry.recorded_id("pettingzoo:mpe2.simple_crypto_v3", "manifest.json")
    assert registry.recorded_id("gymnasium:CartPole-v1", "manifest.json")
    registry.canonical_id("host_worlds:make_countdown")
    assert registry.recorded_id("host_worlds:make_countdown", "manifest.json")


def test_a_function_makes_worlds_of_the_library_of_its_environment():
    core = gpu_envs.make_core("host_worlds:make_countdown", 2, limit=9)
    assert core.possible_agents == ("walker_0", "walker_1", "flyer_0")
    assert "limit=9" in repr(core)
    with pytest.raises(ConfigError, match="expected an environment of PettingZoo, Gymnasium or OpenSpiel"):
        gpu_envs.make_core("builtins:dict")
