"""Environments of installed packages, and modules that are imported again."""

import importlib
import sys

import gymnasium
import pytest

import gpu_envs
from gpu_envs.cli import main
from gpu_envs.cli.new import written
from gpu_envs.definition import registry
from gpu_envs.errors import CheckpointError, ConfigError

ID = "PluggedMeet-v0"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return the folder of packages, in which the package plugged_meet is installed without entry points."""
    folder = tmp_path / "packages"
    (folder / "plugged_meet").mkdir(parents=True)
    for file, text in written("plugged_meet").items():
        (folder / "plugged_meet" / file).write_text(text)
    info = folder / "plugged_meet-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-meet\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(registry, "_plugins", set())
    yield folder
    registry._withdraw(ID)
    for name in [name for name in sys.modules if name.startswith("plugged_meet")]:
        del sys.modules[name]


def declare(folder, module="plugged_meet"):
    """Declare a module by an entry point."""
    text = f"[gpu_envs.environments]\nmeet = {module}\n"
    (folder / "plugged_meet-1.0.dist-info" / "entry_points.txt").write_text(text)
    importlib.invalidate_caches()


def test_environment_of_an_installed_package_needs_no_module(package, capsys):
    assert ID not in gpu_envs.list_envs()
    declare(package)
    assert registry.find(ID).id == ID
    assert ID in gpu_envs.list_envs()
    assert main(["list", "--family", "other"]) == 0
    assert ID in capsys.readouterr().out


def test_run_with_an_environment_of_an_installed_package_needs_no_allowed_import(package):
    with pytest.raises(CheckpointError, match="add --allow-import plugged_meet"):
        registry.recorded_id(f"plugged_meet:{ID}", "config.json")
    declare(package)
    assert registry.recorded_id(f"plugged_meet:{ID}", "config.json") == f"plugged_meet:{ID}"


def test_package_that_fails_is_named_and_hides_no_other_environment(package):
    declare(package, "plugged_meet_missing")
    with pytest.warns(
        UserWarning, match=r"plugged-meet declares environments in plugged_meet_missing, which fails: Mod"
    ):
        assert "SimpleTag-v0" in gpu_envs.list_envs()
    gpu_envs.list_envs()  # once


def test_reloaded_module_replaces_its_environment(package, recwarn):
    module = importlib.import_module("plugged_meet")
    previous = registry.find(ID)
    source = package / "plugged_meet" / "__init__.py"
    # Another length: Python takes compiled bytes whose source has equal size and equal second of its last change.
    source.write_text(source.read_text().replace("setting(40, ge=1", "setting(400, ge=1", 1))
    importlib.invalidate_caches()
    assert importlib.reload(module).Config().max_episode_steps == 400
    assert registry.find(ID).config is module.Config is not previous.config
    assert gymnasium.spec(f"gpu_envs/{ID}").kwargs == {"env_id": ID}
    assert not recwarn.list


def test_id_of_another_module_is_taken(package):
    module = importlib.import_module("plugged_meet")
    with pytest.raises(ConfigError, match="SimpleTag-v0 is registered already"):
        gpu_envs.register("SimpleTag-v0", config=module.Config, build=module.build)


@pytest.mark.slow
def test_reloaded_rules_are_compiled_again(package):
    """Their key, which names the kernels, is the same."""
    importlib.import_module("plugged_meet")
    first = gpu_envs.make(f"plugged_meet:{ID}", 4, "cpu", seed=0).core
    first.reset()
    first.step(first.sample_actions())
    source = package / "plugged_meet" / "rules.py"
    source.write_text(
        source.read_text().replace("io.reward[env, agent] = -float(apart)", "io.reward[env, agent] = 70.0")
    )
    importlib.invalidate_caches()
    for name in ("plugged_meet.rules", "plugged_meet"):
        importlib.reload(sys.modules[name])
    second = gpu_envs.make(f"plugged_meet:{ID}", 4, "cpu", seed=0, length=1000).core
    second.reset()
    reward = second.step(second.sample_actions())[1]
    assert reward.eq(0.07).all()
