"""Tests of recorded ids: files do not run code; modules named in ids are imported only if the user allows it."""

import dataclasses
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from psro_runs import QUICK, play
from watch_runs import trained

from gpu_envs.cli import main
from gpu_envs.definition import id_modules
from gpu_envs.definition.registry import recorded_id
from gpu_envs.errors import CheckpointError, UnknownEnvironmentError
from trainers.cluster.tune_results import FORMAT
from trainers.cluster.tune_search import SEARCH
from trainers.cluster.tune_trial import TuneConfig

EVIL = "import os\nwith open({!r}, 'a') as file:\n    print(os.getpid(), file=file)\n"
FIT = ["--device", "cpu", "--episodes", "2", "--learner.num_epochs", "1", "--learner.hidden_sizes", "4"]
PICTURE = ["--steps", "1", "--num-envs", "1", "--size", "24", "--device", "cpu"]


def _line(argv: list[str]) -> str:
    return " ".join(argv)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Return runs and a recording whose environments are recorded in gift.evil, and unmodified ones."""
    folder = tmp_path_factory.mktemp("runs")
    training, league = trained(folder / "own-training"), folder / "own-league"
    play(league, "RockPaperScissors-v0", iterations=1, **QUICK)
    scripted = ["clone", "scripted", "--env-id", "SimpleTag-v0", "--env-arg", "max_cycles=7", *FIT]
    assert main([*scripted, "--run-dir", str(folder / "cloned")]) == 0
    shutil.copytree(training, folder / "training")
    shutil.copytree(league, folder / "league")
    shutil.move(folder / "cloned" / "episodes", folder / "recording")
    for file in (*(folder / "training").rglob("*.json"), folder / "recording" / "manifest.json"):
        file.write_text(file.read_text().replace('"env_id": "', '"env_id": "gift.evil:'))
    with sqlite3.connect(folder / "league" / "league.db") as db:
        db.execute("UPDATE meta SET value = replace(value, 'RockPaper', 'gift.evil:RockPaper') WHERE key = 'game'")
    db.close()
    config = json.loads((folder / "training" / "config.json").read_text())
    search = {"config": config, "plan": dataclasses.asdict(TuneConfig()), "search": {}, "trials": 1}
    (folder / "search").mkdir()
    (folder / "search" / SEARCH).write_text(json.dumps({"format": FORMAT, **search}))
    return folder


@pytest.fixture
def marker(runs, tmp_path, monkeypatch):
    """Return the path of the file that gift/evil.py in the working folder writes when it is imported."""
    (tmp_path / "gift").mkdir()
    (tmp_path / "gift" / "evil.py").write_text(EVIL.format(str(tmp_path / "marker")))
    for name in ("training", "recording", "league", "search", "own-training", "own-league"):
        shutil.copytree(runs / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*filter(None, sys.path)])
    monkeypatch.setattr(id_modules, "_named", {})
    yield tmp_path / "marker"
    for name in ("gift.evil", "gift"):
        sys.modules.pop(name, None)


TRAINING = [
    ["train", "--resume", "training", "--total-steps", "100", "--no-video", "--eval-episodes", "0"],
    ["eval", "training", "--episodes", "2", "--device", "cpu"],
    ["export", "training", "--output", "policy.pt2", "--policy", "agent"],
    ["render", "SimpleTag-v0", "--checkpoint", "training", "--output", "picture.png", *PICTURE],
    ["clone", "training", "--run-dir", "clone", *FIT],
    ["clone", "recording", "--run-dir", "clone", *FIT],
    ["watch", "training", "--export", "page.html"],
]
PROCESS = ["--executor", "process", "--num-workers", "1"]
LEAGUE = [
    ["league", "resume", "league", "--iterations", "2", "--num-threads", "1"],
    pytest.param(["league", "resume", "league", "--iterations", "2", *PROCESS], marks=pytest.mark.slow),
    ["league", "report", "league", *PROCESS],
    ["league", "report", "own-league", "--opponents", "league"],
    ["league", "render", "league", "--output", "picture.png", *PICTURE],
    ["watch", "league", "--export", "page.html"],
]


@pytest.mark.parametrize(
    "argv",
    [
        *TRAINING,
        *LEAGUE,
        ["tune", "--resume", "search"],
        ["league", "train", "RockPaperScissors-v0", "--run-dir", "league"],
    ],
    ids=_line,
)
def test_recorded_id_with_a_module_is_refused_and_not_imported(argv, marker, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path, ""])  # importable
    monkeypatch.setattr("trainers.cli.tune.ray_library", lambda name: None)
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ": environment 'gift.evil:" in line
    assert line.endswith(
        "is in the module 'gift.evil', which is not imported for a recorded run; add --allow-import gift.evil if you "
        "trust it"
    )
    assert not marker.exists()
    assert "gift" not in sys.modules


@pytest.mark.slow
@pytest.mark.parametrize("argv", [*TRAINING, *LEAGUE], ids=_line)
def test_recorded_id_with_an_allowed_module_runs(argv, marker, capsys):
    output = main([*argv, "--allow-import", "gift.evil"]), capsys.readouterr().err
    expected = 2 if "--opponents" in argv else 0  # the game is another by its name
    assert output[0] == expected, output
    processes = set(marker.read_text().split())
    assert str(os.getpid()) in processes
    assert len(processes) == (2 if argv[:2] == ["league", "resume"] and "process" in argv else 1)


@pytest.mark.parametrize(
    "argv",
    [
        ["eval", "own-training", "--opponents", "training", "--episodes", "2", "--device", "cpu"],
        ["train", "SimpleTag-v0", "--eval-opponents", "training", "--run-dir", "new", "--device", "cpu"],
    ],
    ids=_line,
)
def test_opponent_of_another_environment_is_refused_and_not_imported(argv, marker, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path, ""])
    assert main(argv) == 2
    assert "env_id: expected SimpleTag-v0, got gift.evil:SimpleTag-v0" in capsys.readouterr().err
    assert not marker.exists()


@pytest.mark.parametrize("command", ["check", "train", "render", "tune"])
def test_typed_id_imports_its_module_from_the_working_folder(command, marker, capsys):
    assert main([command, "gift.evil:Nothing-v0"]) == 2
    assert "no environment named 'gift.evil:Nothing-v0'" in capsys.readouterr().err
    assert marker.exists()


@pytest.mark.parametrize("name", ["ray", "tensorboard_missing", "gift.none", ".."])
def test_missing_module_leaves_sys_path_unchanged(name, marker, capsys):
    previous = [*sys.path]
    assert main(["eval", "own-training", "--allow-import", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"error: module {name!r}: " in line
    assert sys.path == previous


def test_working_folder_is_searched_only_for_named_modules(marker, capsys):
    """An optional library that is not installed must not be imported from another author's run folder."""
    (marker.parent / "optional.py").write_text(EVIL.format(str(marker)))
    assert main(["eval", "own-training", "--episodes", "2", "--device", "cpu"]) == 0
    assert "" not in sys.path
    with pytest.raises(ModuleNotFoundError):
        __import__("optional")


TRAINING = "train gymnasium:CartPole-v1 --env-workers 2 --num-envs 2 --total-steps 64 --eval-episodes 0 --no-video"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["league", "resume", "own-league", "--iterations", "2", *PROCESS],
        [*TRAINING.split(), "--device", "cpu", "--run-dir", "new"],
    ],
    ids=["league", "worlds"],
)
def test_workers_start_without_the_working_folder(words, marker):
    """Python searches the working folder for modules when it starts a worker, and before it its resource tracker."""
    for name in ("pickle", "runpy", "signal"):
        (marker.parent / f"{name}.py").write_text(EVIL.format(str(marker)))
    # a new process, which has no resource tracker yet
    command = Path(sysconfig.get_path("scripts")) / "gpu-envs"
    subprocess.run([command, *words], check=True)
    assert not marker.exists()


@pytest.mark.slow
def test_starting_workers_leaves_the_environment_unchanged(marker):
    assert main(["league", "resume", "own-league", "--iterations", "2", *PROCESS]) == 0
    assert "PYTHONSAFEPATH" not in os.environ


def test_module_imported_by_a_program_may_be_named(marker, monkeypatch):
    """A known environment alone does not allow other modules."""
    with pytest.raises(CheckpointError, match=r"^a.json: environment 'gift.evil:SimpleTag-v0' is in the module"):
        recorded_id("gift.evil:SimpleTag-v0", "a.json")
    monkeypatch.syspath_prepend(marker.parent)
    __import__("gift.evil")
    assert recorded_id("gift.evil:SimpleTag-v0", "a.json") == "gift.evil:SimpleTag-v0"
    assert id_modules.named_modules() == ("gift.evil",)
    with pytest.raises(UnknownEnvironmentError, match=r"a.json: expected 'gift.evil' to register 'None-v0'"):
        recorded_id("gift.evil:None-v0", "a.json")


@pytest.mark.parametrize("value", [None, 3, ["a"], "a b:X-v0", "$(x):X-v0", "a\nb:X-v0"])
def test_malformed_recorded_id_is_refused_without_import_hint(value):
    with pytest.raises(CheckpointError, match=r"^a.json: expected the id of an environment, got ") as caught:
        recorded_id(value, "a.json")
    assert "\n" not in str(caught.value)
