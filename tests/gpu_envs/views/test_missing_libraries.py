"""Views of libraries that are not installed report in one line what to install."""

import importlib
import subprocess
import sys

import pytest

from gpu_envs.errors import MissingExtraError, missing_extra
from gpu_envs.views.skrl import make_skrl


@pytest.mark.parametrize(
    ("library", "view", "words"),
    [
        ("stable_baselines3", "sb3", r"views\.sb3 needs stable_baselines3: pip install 'gpu-envs\[sb3\]'"),
        ("torchrl", "torchrl", r"views\.torchrl needs (tensordict|torchrl): pip install 'gpu-envs\[torchrl\]'"),
        ("torchrl", "torchrl_groups", r"views\.torchrl_groups needs torchrl: pip install 'gpu-envs\[torchrl\]'"),
        (
            "benchmarl",
            "benchmarl",
            r"views\.benchmarl needs benchmarl: pip install 'benchmarl>=1\.5', in a virtual environment of",
        ),
    ],
)
def test_missing_library_is_named_in_the_error(library, view, words, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"gpu_envs.views.{view}", raising=False)
    with pytest.raises(MissingExtraError, match=words):
        importlib.import_module(f"gpu_envs.views.{view}")


def test_every_view_is_importable_or_names_the_missing_library():
    """In a process without the optional libraries."""
    script = """
import importlib, pathlib, sys
for name in ("stable_baselines3", "torchrl", "tensordict", "benchmarl", "skrl"):
    sys.modules[name] = None
from gpu_envs import views
from gpu_envs.errors import MissingExtraError
refused = []
for path in pathlib.Path(views.__path__[0]).glob("*.py"):
    try:
        importlib.import_module(f"gpu_envs.views.{path.stem}")
    except MissingExtraError as error:
        assert f"views.{path.stem} needs" in str(error) and "pip install" in str(error), error
        refused.append(path.stem)
print(*sorted(refused))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["benchmarl", "sb3", "torchrl", "torchrl_groups"]


def test_skrl_is_imported_only_to_wrap(monkeypatch):
    monkeypatch.setitem(sys.modules, "skrl", None)
    with pytest.raises(MissingExtraError, match=r"views\.skrl needs skrl: pip install 'gpu-envs\[skrl\]'"):
        make_skrl("SimpleTag-v0", device="cpu")


def test_missing_dependency_of_a_library_keeps_its_error():
    foreign = ModuleNotFoundError("No module named 'yaml'", name="yaml")
    assert missing_extra(foreign, "a view", ("torchrl",), "'gpu-envs[torchrl]'") is foreign
    nested = ModuleNotFoundError(name="torchrl.data")
    assert "a view needs torchrl: pip install" in str(
        missing_extra(nested, "a view", ("torchrl",), "'gpu-envs[torchrl]'")
    )


@pytest.mark.slow
def test_pettingzoo_without_a_registry_still_works():
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
