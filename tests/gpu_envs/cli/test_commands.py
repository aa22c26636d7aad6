"""The command line: results on standard output, progress and one-line errors on standard error."""

import gc
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gpu_envs import check, cli, commands
from gpu_envs.errors import ConfigError

ROOT = Path(__file__).parents[1]


def run(capsys, *argv):
    """Exit code, standard output, standard error."""
    code = cli.main(list(argv))
    return code, *capsys.readouterr()


def refused(capsys, *argv):
    """The one line that a refused command says."""
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("gpu-envs: error: ")
    return line


def test_list(capsys):
    code, out, err = run(capsys, "list")
    assert (code, err) == (0, "")
    assert "SimpleTag-v0" in out.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("lst", "no command named 'lst'; did you mean list?"),
        ("list --al", "list: unrecognized arguments: --al; see gpu-envs list --help"),
        ("check", "check: the following arguments are required: id"),
        ("check Simplest-v0", "no environment named 'Simplest-v0'"),
        ("check SimpleTag-v0 --env num_good", "--env num_good: expected NAME=VALUE"),
        ("check SimpleTag-v0 --env num_envs=3", "num_envs is no setting of the environment but of the runner"),
        ("render SimpleTag-v0 --env num_envs=3", "but of the runner; use --worlds"),
        ("render SimpleTag-v0 --env seed=3", "but of the runner; use --seed"),
        ("render SimpleTag-v0 --env reuse_buffers=true", "--env reuse_buffers=true: reuse_buffers is no setting"),
        ("render SimpleTag-v0 --worlds 0", "argument --worlds: must be an int >= 1, got '0'"),
        ("render SimpleTag-v0 --size 0", "argument --size: must be an int >= 1, got '0'"),
        ("render SimpleTag-v0 --steps 1.5", "argument --steps: must be an int >= 1, got '1.5'"),
        ("render SimpleTag-v0 --out x.avi --steps 1", "its suffix must be one of"),
        ("bench SimpleTag-v0 --env device=cpu", "but of the runner; use --device"),
        ("bench SimpleTag-v0 --env devices=cpu", "devices is no setting of the environment"),
        ("bench SimpleTag-v0 --num-envs 0", "argument --num-envs: must be an int >= 1, got '0'"),
        ("bench SimpleTag-v0 --threads -1", "argument --threads: must be an int >= 1"),
        ("bench SimpleTag-v0 --schedule both", "argument --schedule: invalid choice: 'both'"),
        ("bench SimpleTag-v0 --seconds -1", "argument --seconds: must be a number of seconds > 0, got '-1'"),
        ("bench SimpleTag-v0 --seconds 0", "must be a number of seconds > 0, got '0'"),
        ("bench SimpleTag-v0 --seconds nan", "must be a number of seconds > 0, got 'nan'"),
        ("bench SimpleTag-v0 --env num_good=1e400", "num_good must be an int"),
    ],
)
def test_wrong_arguments_are_one_line(capsys, line, words):
    assert words in refused(capsys, *line.split())


def test_every_argument_of_the_runner_is_refused_as_a_setting():
    for name in ("num_envs", "device", "devices", "autoreset", "env_offset", "threads", "fuse_fp", "env_minor"):
        with pytest.raises(ConfigError, match="of the runner"):
            commands.settings([f"{name}=1"])
    assert commands.settings(["max_episode_steps=3", "a=[1, 2]", "b=x"]) == {
        "max_episode_steps": 3,
        "a": (1, 2),
        "b": "x",
    }
    assert commands.settings(["seed=blue"], "--policy") == {"seed": "blue"}  # a group may have any name


def test_a_command_ends_without_a_last_collection(monkeypatch, capsys):
    at_exit = []
    monkeypatch.setattr(cli.atexit, "register", at_exit.append)
    assert cli.main(["list"]) == 0
    assert at_exit == [gc.freeze]


def failing(monkeypatch, error):
    """Make `gpu-envs fail` raise this."""

    def command(argv):
        raise error() if isinstance(error, type) else error

    found = SimpleNamespace(name="fail", load=lambda: command)
    monkeypatch.setattr(cli, "entry_points", lambda group: [found])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError, "not enough memory (MemoryError); try fewer worlds"),
        (torch.OutOfMemoryError("CUDA out of memory.\nmore"), "not enough memory (CUDA out of memory.)"),
        (RuntimeError("Failed to allocate 9 bytes on device 'cuda:0'"), "not enough memory (Failed to allocate"),
        (PermissionError(13, "Permission denied", "out/x"), "Permission denied: out/x"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("odd"), "odd"),
    ],
)
def test_what_a_machine_lacks_is_one_line(capsys, monkeypatch, error, words):
    failing(monkeypatch, error)
    assert words in refused(capsys, "fail")


def test_torch_on_the_cpu_says_that_memory_is_short(capsys, monkeypatch):
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    failing(monkeypatch, caught.value)
    assert "not enough memory" in refused(capsys, "fail")


def test_other_errors_keep_their_traceback(monkeypatch):
    failing(monkeypatch, RuntimeError("a defect"))
    with pytest.raises(RuntimeError, match="a defect"):
        cli.main(["fail"])


def test_a_folder_that_cannot_be_made(capsys, tmp_path):
    (tmp_path / "file").touch()
    line = refused(capsys, "render", "SimpleTag-v0", "--steps", "1", "--size", "8", "--worlds", "1",
                   "--out", str(tmp_path / "file" / "x.png"), "--device", "cpu")  # fmt: skip
    assert str(tmp_path / "file") in line


def test_render_shows_its_progress_and_says_where(capsys, tmp_path):
    path = tmp_path / "deep" / "x.PNG"
    argv = f"render SimpleTag-v0 --steps 3 --size 16 --worlds 2 --device cpu --env max_episode_steps=2 --out {path}"
    code, out, err = run(capsys, *argv.split())
    assert code == 0
    assert out == f"{path}\n"
    assert path.stat().st_size > 0
    assert [line.split() for line in err.splitlines()] == [["1", "/", "3", "steps"], ["3", "/", "3", "steps"]]


def test_check_shows_its_progress(capsys, monkeypatch):
    def check_one(subject):
        """Holds."""

    monkeypatch.setattr(check, "LAWS", (check_one, check_one))
    code, out, err = run(capsys, "check", "SimpleTag-v0")
    assert (code, out) == (0, "SimpleTag-v0 keeps the contract\n")
    assert [line.split() for line in err.splitlines()] == [
        ["1", "/", "3", "laws", "definition"],
        ["3", "/", "3", "laws", "one"],
    ]


def test_bench(capsys):
    argv = ["bench", "SimpleTag-v0", "--num-envs", "4", "--seconds", "0.01", "--device", "cpu", "--threads", "1"]
    code, out, err = run(capsys, *argv)
    assert code == 0
    assert out.startswith("SimpleTag-v0: 4 worlds x 4 agents on cpu, fused, 1 threads\n")
    assert len(out.splitlines()) == 4
    assert err.splitlines()[-1].split()[:4] == ["9", "/", "9", "rounds"]


def test_a_closed_pipe_is_no_error(monkeypatch):
    failing(monkeypatch, BrokenPipeError)
    with open(os.devnull, "w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        assert cli.main(["fail"]) == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train SimpleTagg-v0", "did you mean SimpleTag-v0"),
        ("train SimpleTag-v0 --env num_god=2", "did you mean num_good"),
        ("train SimpleTag-v0 --algorithm pppo", "did you mean ppo|expected one of"),
        ("train SimpleTag-v0 --num-envz 8", "did you mean --num-envs"),
        ("render SimpleTag-v0 --device cuda:99", "cuda:99.*use|expected"),
        ("eval NOWHERE", "gpu-envs train ID --out NOWHERE makes one"),
        ("eval BAD", "manifest.json: .*expected"),
        ("train --resume NOWHERE", "gpu-envs train ID --out NOWHERE makes one"),
        ("eval zoo:cartpole", "cartpole-ppo"),
        ("clone NOWHERE", "expected"),
        ("league report NOWHERE", "expected"),
        ("league resume NOWHERE", "expected"),
        ("tune --resume NOWHERE", "expected|pip install"),
    ],
)
def test_the_usual_mistakes_say_what_to_do_next(capsys, tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "BAD").mkdir()
    (tmp_path / "BAD" / "manifest.json").write_text("{", encoding="utf-8")
    told = refused(capsys, *line.split())
    assert re.search(words, told), told
    assert not (tmp_path / "NOWHERE").exists()


def test_a_missing_extra_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio", None)
    line = refused(capsys, "render", "SimpleTag-v0", "--steps", "1", "--size", "8", "--out", "x.mp4", "--device", "cpu")
    assert "pip install 'gpu-envs[train]'" in line


def imported_by(*words):
    """Modules that `python -m gpu_envs WORDS` imports, by the interpreter's own account; and what it prints."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gpu_envs", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}, done.stdout


@pytest.mark.parametrize("line", ["--help", "list", "new meet --folder {folder}", "list --help", "check --help"])
def test_commands_that_make_no_environment_import_neither_torch_nor_warp(line, tmp_path):
    modules, out = imported_by(*line.format(folder=tmp_path).split())
    assert "gpu_envs.cli" in modules
    assert not modules & {"torch", "warp", "pyglet", "matplotlib", "scipy"}
    assert out


def test_python_m_gpu_envs_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "gpu_envs", "lst"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gpu-envs: error: no command named 'lst'; did you mean list?\n"


def test_the_package_has_what_it_names_and_nothing_else():
    import gpu_envs
    from gpu_envs import api

    assert all(callable(getattr(gpu_envs, name)) for name in gpu_envs.__all__)
    assert gpu_envs.make is api.make
    with pytest.raises(AttributeError, match="has no attribute 'mke'"):
        gpu_envs.mke  # noqa: B018
