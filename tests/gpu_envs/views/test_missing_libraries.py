"""Views of libraries that are not installed report in one line what to install."""

import importlib
import json
import subprocess
import sys
from importlib import metadata

import pytest

from gpu_envs.errors import MissingExtraError, missing_extra, packages
from gpu_envs.views.skrl import make_skrl


@pytest.mark.parametrize(
    ("library", "view", "words"),
    [
        (
            "stable_baselines3",
            "sb3",
            r"views\.sb3 needs stable_baselines3: pip install .*('stable-baselines3>=2\.9|\[sb3\])'$",
        ),
        (
            "torchrl",
            "torchrl",
            r"views\.torchrl needs (tensordict|torchrl): pip install .*('torchrl>=0\.11|\[torchrl\])'$",
        ),
        (
            "benchmarl",
            "benchmarl",
            r"views\.benchmarl needs benchmarl: pip install 'benchmarl>=1\.5', in a separate virtual environment",
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
    assert done.stdout.split() == ["benchmarl", "sb3", "torchrl"]


def test_skrl_is_imported_only_to_wrap(monkeypatch):
    monkeypatch.setitem(sys.modules, "skrl", None)
    with pytest.raises(MissingExtraError, match=r"views\.skrl needs skrl: pip install .*('skrl>=2\.1|\[skrl\])'$"):
        make_skrl("SimpleTag-v0", device="cpu")


def test_missing_dependency_of_a_library_keeps_its_error():
    foreign = ModuleNotFoundError("No module named 'yaml'", name="yaml")
    assert missing_extra(foreign, "a view", ("torchrl",), packages("torchrl")) is foreign
    nested = ModuleNotFoundError(name="torchrl.data")
    assert "a view needs torchrl: pip install" in str(
        missing_extra(nested, "a view", ("torchrl",), packages("torchrl"))
    )


def installed_from(monkeypatch, source):
    """Pretend that the project was installed from a source as PEP 610 records it; None: from an index."""

    class Distribution:
        requires = ('stable-baselines3>=2.9; extra == "sb3"',)

        def read_text(self, name):
            return json.dumps(source) if source and name == "direct_url.json" else None

    monkeypatch.setattr(metadata, "distribution", {"gpu-envs": Distribution()}.get)


def test_hint_names_the_packages_of_an_extra_and_of_those_in_it(monkeypatch):
    lines = [
        "numpy>=1.26",
        'scipy>=1.13; extra == "league"',
        "gpu-envs[train]; extra == 'league'",
        "pretended-tool[fast,small]>=2; extra == 'train'",
        "numpy<9; extra == 'train'",  # installed
        "other>=1; extra == 'other'",
    ]
    monkeypatch.setattr(metadata, "requires", {"gpu-envs": lines}.get)
    installed_from(monkeypatch, None)
    assert packages("league") == "'pretended-tool[fast,small]>=2'"
    monkeypatch.setattr(metadata, "distributions", lambda name: [])
    assert packages("league") == "'scipy>=1.13' 'pretended-tool[fast,small]>=2' 'numpy<9'"
    monkeypatch.setattr(metadata, "distributions", lambda name: [name])
    assert packages("train") == "'pretended-tool[fast,small]>=2' 'numpy<9'"


def test_hint_of_a_clone_that_is_not_installed_names_the_clone(monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert packages("sb3") == "-e '.[sb3]' in the clone"


def test_hint_of_an_editable_installation_names_the_extra_of_the_clone(monkeypatch, tmp_path):
    clone = tmp_path / "my clone"
    clone.mkdir()
    installed_from(monkeypatch, {"url": clone.as_uri(), "dir_info": {"editable": True}})
    assert packages("sb3") == f"-e '{clone}[sb3]'"
    monkeypatch.chdir(clone)
    assert packages("sb3") == "-e '.[sb3]'"
    installed_from(monkeypatch, {"url": clone.as_uri(), "dir_info": {}})
    assert packages("sb3") == "'stable-baselines3>=2.9'"


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
