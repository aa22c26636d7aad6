"""The doors to libraries that are not installed say in a line what to install, and blame nothing else."""

import importlib
import subprocess
import sys

import pytest

from gpu_envs.errors import MissingExtraError, missing
from gpu_envs.views.skrl import make_skrl


@pytest.mark.parametrize(
    ("library", "view", "words"),
    [
        ("stable_baselines3", "sb3", r"views\.sb3 needs stable_baselines3: pip install 'gpu-envs\[sb3\]'"),
        ("torchrl", "torchrl", r"views\.torchrl needs (tensordict|torchrl): pip install 'gpu-envs\[torchrl\]'"),
        (
            "benchmarl",
            "benchmarl",
            r"views\.benchmarl needs benchmarl: pip install 'benchmarl>=1\.5', in a virtual environment of",
        ),
    ],
)
def test_a_missing_library_is_named(library, view, words, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"gpu_envs.views.{view}", raising=False)
    with pytest.raises(MissingExtraError, match=words):
        importlib.import_module(f"gpu_envs.views.{view}")


def test_skrl_is_needed_where_it_wraps(monkeypatch):
    monkeypatch.setitem(sys.modules, "skrl", None)
    with pytest.raises(MissingExtraError, match=r"views\.skrl needs skrl: pip install 'gpu-envs\[skrl\]'"):
        make_skrl("SimpleTag-v0", device="cpu")


def test_what_a_library_misses_itself_is_not_explained_away():
    foreign = ModuleNotFoundError("No module named 'yaml'", name="yaml")
    assert missing(foreign, "a view", ("torchrl",), "'gpu-envs[torchrl]'") is foreign
    nested = ModuleNotFoundError(name="torchrl.data")
    assert "a view needs torchrl: pip install" in str(missing(nested, "a view", ("torchrl",), "'gpu-envs[torchrl]'"))


def test_a_pettingzoo_without_a_registry_leaves_its_views_alone():
    """PettingZoo before 1.27, which some libraries pin: no registry to enter into; all else works."""
    script = """
import pettingzoo, sys
for name in {"make", "register", "spec", "parallel_registry", "aec_registry"} & vars(pettingzoo).keys():
    delattr(pettingzoo, name)
import gymnasium, gpu_envs
env = gpu_envs.parallel_env("SimpleTag-v0")
assert isinstance(env, pettingzoo.ParallelEnv)
env.reset(seed=0)
assert gymnasium.spec("gpu_envs/SimpleTag-v0").id == "gpu_envs/SimpleTag-v0"
print("made")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "made" in done.stdout
