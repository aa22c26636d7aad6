"""Paths of all commands: what cannot be a path is one line and exit code 2, before long work and before any file."""

import os
from pathlib import Path

import pytest
from messages import refused

from gpu_envs.errors import ConfigError
from gpu_envs.utils.paths import LONGEST, check_file, check_folder

ZOO = "zoo:cartpole-dqn"
FILES = {
    "eval": ["eval", ZOO, "--episodes", "2", "--device", "cpu", "--output", "@.json"],
    "export": ["export", ZOO, "--output", "@.pt2"],
    "render": ["render", "CartPole-v1", "--steps", "1", "--device", "cpu", "--output", "@.png"],
    "render --checkpoint": [
        "render", "CartPole-v1", "--checkpoint", ZOO, "--steps", "1", "--device", "cpu", "--output", "@.png",
    ],
    "watch": ["watch", "run", "--export", "@.html"],
}  # fmt: skip
"""Commands that write a file."""
TRAIN = ["train", "CartPole-v1", "--total-steps", "1", "--device", "cpu"]
FOLDERS = {
    "train": [*TRAIN, "--run-dir", "@"],
    "clone": ["clone", ZOO, "--episodes", "2", "--device", "cpu", "--run-dir", "@"],
    "tune": ["tune", "CartPole-v1", "--search", "learner.gamma=0.9,0.99", "--device", "cpu", "--run-dir", "@"],
    "league train": ["league", "train", "KuhnPoker-v0", "--iterations", "1", "--run-dir", "@"],
    "new": ["new", "game", "--folder", "@"],
}
"""Commands that write a folder."""
READS = {
    "train --resume": ["train", "--resume", "@"],
    "train --eval-opponents": [*TRAIN, "--eval-opponents", "@"],
    "eval RUN": ["eval", "@"],
    "eval --opponents": ["eval", ZOO, "--opponents", "@", "--device", "cpu"],
    "export RUN": ["export", "@", "--output", "policy.pt2"],
    "render": ["render", "CartPole-v1", "--checkpoint", "@"],
    "clone SOURCE": ["clone", "@"],
    "tune --resume": ["tune", "--resume", "@"],
    "league resume": ["league", "resume", "@"],
    "league report": ["league", "report", "@"],
    "league render": ["league", "render", "@"],
    "watch RUN": ["watch", "@", "--no-browser"],
}
"""Commands that read a run."""
BAD = {
    "empty": "",
    "NUL": "\0",
    "NUL inside": "a\0b",
    "long name": "x" * 300,
    "long name in a new folder": f"new/{'x' * 300}/y",
    "below a file": "file/x",
    "line break": "no\nwhere/\n",
}
QUICK_BAD = ("empty", "NUL inside", "below a file", "line break")


def refused_path(capsys, folder: Path, command: list[str], path: str) -> str:
    """Return the one line that a command with this path prints, and assert that it makes no file."""
    entries = sorted(folder.rglob("*"))
    line = refused(capsys, *(word.replace("@", path, 1) for word in command))
    assert sorted(folder.rglob("*")) == entries
    return line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    return tmp_path


def cases():
    for commands in (FILES, FOLDERS, READS):
        for name, command in commands.items():
            for kind, path in BAD.items():
                if (kind != "line break" or commands is READS) and not (commands is FILES and kind == "empty"):
                    marks = [pytest.mark.slow] * (kind not in QUICK_BAD)
                    yield pytest.param(command, path, id=f"{name}: {kind}", marks=marks)
    for name, command in FILES.items():
        empty = ["" if word.startswith("@") else word for word in command]
        yield pytest.param(empty, "", id=f"{name}: empty")


@pytest.mark.parametrize(("command", "path"), list(cases()))
def test_invalid_path_prints_one_line(folder, capsys, command, path):
    refused_path(capsys, folder, command, path)


def test_equals_sign_without_a_value_is_refused(folder, capsys):
    assert "train: --run-dir: expected a value, got ''" in refused_path(
        capsys, folder, ["train", "CartPole-v1", "--run-dir=@"], ""
    )


@pytest.mark.parametrize("command", FILES.values(), ids=FILES)
def test_folder_or_device_where_a_file_is_to_be_is_refused(folder, capsys, command):
    suffix = next(word for word in command if "@" in word).removeprefix("@")
    (folder / f"taken{suffix}").mkdir()
    assert "expected a file, got a folder" in refused_path(capsys, folder, command, "taken")
    os.mkfifo(folder / f"pipe{suffix}")
    assert "expected a file, got a device" in refused_path(capsys, folder, command, "pipe")


@pytest.mark.parametrize("command", FOLDERS.values(), ids=FOLDERS)
def test_file_where_a_folder_is_to_be_is_refused(folder, capsys, command):
    refused_path(capsys, folder, command, "file")


def test_path_is_checked_before_anything_is_made(tmp_path):
    check_folder(tmp_path / "new" / "newer")
    check_file(tmp_path / "new" / "table.json")
    check_folder(tmp_path / ("é" * (LONGEST // 2)))
    for path, words in (
        (tmp_path / "\0", "expected a path, got one with a NUL"),
        (tmp_path / "new" / ("é" * 150), "expected names of at most 200 bytes, got one of 300"),
        (Path("/dev/null/x"), "can be made, got the file /dev/null"),
    ):
        with pytest.raises(ConfigError, match=words):
            check_folder(path)
        with pytest.raises(ConfigError, match=words):
            check_file(path / "x")
    assert not list(tmp_path.iterdir())


def test_file_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "table.json"
    file.touch()
    # the owner of a machine may write anywhere: what the file system would say to others
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_file())
    with pytest.raises(ConfigError, match="expected a file that can be written, got one that cannot"):
        check_file(file)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigError, match="which cannot be written"):
        check_folder(tmp_path)
