"""The names of packages that import their public names at the first use."""

import importlib

import pytest


@pytest.mark.parametrize("name", ["gpu_envs", "trainers", "league", "league.psro", "trainers.zoo"])
def test_dir_lists_public_names_and_special_attributes_only(name):
    package = importlib.import_module(name)
    assert {each for each in dir(package) if not each.startswith("__")} == {
        each for each in package.__all__ if not each.startswith("__")
    }
    assert {"__all__", "__name__", "__path__"} <= set(dir(package))


def test_subpackage_is_a_public_name_like_others():
    league = importlib.import_module("league")
    assert league.solvers is importlib.import_module("league.solvers")
