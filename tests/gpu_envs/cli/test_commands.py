"""The command line: results on standard output, progress and one-line errors on standard error."""

import gc
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from messages import refused

import gpu_envs
from gpu_envs.cli import dispatch, options
from gpu_envs.cli.list import FAMILIES
from gpu_envs.definition import registry
from gpu_envs.definition.registry import list_envs
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import configured_definition
from gpu_envs.testing import env_checker

ROOT = Path(__file__).parents[3]


def run(capsys, *argv):
    """Return exit code, standard output and standard error."""
    code = dispatch.main(list(argv))
    return code, *capsys.readouterr()


def test_list_prints_environment_ids(capsys):
    code, out, err = run(capsys, "list", "--ids")
    assert (code, err) == (0, "")
    assert out.split() == list_envs()


def test_first_word_of_list_may_be_a_family(capsys):
    _, out, _ = run(capsys, "list", "tag", "--ids")
    assert out.split() == ["TagContinuous-v0", "TagGridworld-v0"]


def test_help_of_list_names_every_family_and_list_accepts_it(capsys):
    with pytest.raises(SystemExit):
        dispatch.main(["list", "--help"])
    text = capsys.readouterr().out.partition("--family STR ")[2]
    for family in (*FAMILIES, "other"):
        assert re.search(rf"\b{family}\b", text), family
        code, _, err = run(capsys, "list", "--family", family)
        assert (code, err) == (0, "")


def test_list_describes_environments_of_a_family_within_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(capsys, "list")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in out, "a summary is too long"
    for id in list_envs():
        (line,) = [line for line in lines if line.startswith(f"{id} ")]
        number, words = line.removeprefix(id).split(maxsplit=1)
        assert words
        assert int(number) == len(configured_definition(id, None, {})[2].agents)
    code, out, _ = run(capsys, "list", "--family", "tag")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if "-v" in line] == ["TagContinuous-v0", "TagGridworld-v0"]
    assert "no family named 'tags'; did you mean tag?" in refused(capsys, "list", "--family", "tags")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("lst", "no command named 'lst'; did you mean list?"),
        ("new x --template card", "Expected one of ('line', 'grid', 'cards', 'physics'); see gpu-envs new --help"),
        ("list --al", "list: Unrecognized options: --al; see gpu-envs list --help"),
        ("render x --learner.nothing 3", "render: Unrecognized options: --learner.nothing; see"),
        (
            "train CartPole-v1 --learner.lr 1e-3",
            "--learner.lr; did you mean --learner.learning-rate? See gpu-envs",
        ),
        ("train CartPole-v1 --lr=1e-3", "Unrecognized options: --lr=1e-3; did you mean --learner.learning-rate?"),
        ("train CartPole-v1 --learner.ent-coef 0", "--learner.ent-coef; did you mean --learner.entropy-coef?"),
        ("train CartPole-v1 --gamma 0.9", "--gamma; did you mean --learner.gamma?"),
        ("train CartPole-v1 --n_envs 3", "--n_envs; did you mean --num-envs?"),
        ("render x --out y.mp4", "--out; did you mean --output?"),
        ("check", "check: expected ID, got none; see gpu-envs check --help"),
        ("check Simplest-v0", "no environment named 'Simplest-v0'"),
        ("check SimpleTag-v0 --env-arg num_good", "--env-arg num_good: expected NAME=VALUE"),
        ("check SimpleTag-v0 --env-arg num_envs=3", "num_envs is no setting of the environment but of the runner"),
        ("render SimpleTag-v0 --env-arg num_envs=3", "but of the runner; use --num-envs"),
        (
            "render SimpleTag-v0 --env-arg reuse_buffers=true",
            "--env-arg reuse_buffers=true: reuse_buffers is no setting",
        ),
        ("render SimpleTag-v0 --num-envs 0", "--num-envs: expected an int in [1, 2147483647], got 0"),
        ("render SimpleTag-v0 --steps 1.5", "render: --steps: expected an int, got '1.5'; see"),
        ("bench SimpleTag-v0 --seconds x", "bench: --seconds: expected a number, got 'x'; see"),
        ("list gams", "list: no family named 'gams'; did you mean games?"),
        ("render SimpleTag-v0 --output x.avi --steps 1", "path: expected a file with the suffix"),
        ("bench SimpleTag-v0 --env-arg device=cpu", "but of the runner; use --device"),
        ("bench SimpleTag-v0 --env-arg devices=cpu", "unexpected keyword argument 'devices'; run one process per GPU"),
        ("bench SimpleTag-v0 --num-threads -1", "--num-threads: expected an int in [1, 2147483647], or None, got -1"),
        ("bench SimpleTag-v0 --schedule x", "--schedule: expected one of 'fused', 'block', 'phased', or None, got 'x'"),
        ("bench SimpleTag-v0 --seconds 0", "--seconds: expected a finite number > 0, got 0.0"),
        ("bench SimpleTag-v0 --env-arg num_good=1e400", "num_good: expected an int"),
    ],
)
def test_wrong_arguments_print_one_line(capsys, line, words):
    assert words in refused(capsys, *line.split())


def test_arguments_of_make_core_are_refused_as_environment_settings():
    for name in ("num_envs", "device", "autoreset", "env_offset", "threads", "fuse_fp"):
        with pytest.raises(ConfigError, match="of the runner"):
            options.parse_pairs([f"{name}=1"])
    assert options.parse_pairs(["max_episode_steps=3", "a=[1, 2]", "b=x"]) == {
        "max_episode_steps": 3,
        "a": (1, 2),
        "b": "x",
    }
    assert options.parse_pairs(["seed=blue"], "--policy") == {"seed": "blue"}  # a group may have any name


def test_command_exits_without_final_garbage_collection(monkeypatch, capsys):
    at_exit = []
    monkeypatch.setattr(dispatch.atexit, "register", at_exit.append)
    assert dispatch.main(["list"]) == 0
    assert at_exit == [gc.freeze]


def failing(monkeypatch, error):
    """Let `gpu-envs fail` raise an error."""

    def command(argv):
        raise error() if isinstance(error, type) else error

    entry = SimpleNamespace(name="fail", load=lambda: command)
    monkeypatch.setattr(dispatch, "entry_points", lambda group: [entry])


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
def test_missing_resources_print_one_line(capsys, monkeypatch, error, words):
    failing(monkeypatch, error)
    assert words in refused(capsys, "fail")


def test_failed_cpu_allocation_of_torch_prints_one_line(capsys, monkeypatch):
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    failing(monkeypatch, caught.value)
    assert "not enough memory" in refused(capsys, "fail")


def test_other_errors_print_one_line_with_their_place(capsys, monkeypatch):
    failing(monkeypatch, RuntimeError("a defect\nand more"))
    line = refused(capsys, "fail")
    assert line.startswith("RuntimeError: a defect (")
    assert f"{Path(__file__).name}, line " in line
    assert "and more" not in line
    monkeypatch.setenv(dispatch.TRACEBACK, "1")
    with pytest.raises(RuntimeError, match="a defect"):
        dispatch.main(["fail"])


def test_defects_of_an_environment_print_one_line_with_their_place(capsys, monkeypatch, tmp_path):
    head = (
        "from dataclasses import dataclass\nimport gpu_envs\n@dataclass(frozen=True)\nclass Config:\n    n: int = 2\n"
    )
    (tmp_path / "bad_build.py").write_text(
        f"{head}def build(config):\n    return config.nothing\n"
        'gpu_envs.register("BadBuild-v0", config=Config, build=build)\n'
    )
    (tmp_path / "bad_syntax.py").write_text("import os\ndef build(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    line = refused(capsys, "render", "bad_build:BadBuild-v0", "--steps", "1")
    assert "AttributeError: 'Config' object has no attribute 'nothing' (" in line
    assert "bad_build.py, line 7); set GPU_ENVS_TRACEBACK=1" in line
    line = refused(capsys, "render", "bad_syntax:BadSyntax-v0", "--steps", "1")
    assert "SyntaxError: " in line
    assert "bad_syntax.py, line 2)" in line


def test_closed_pipe_ends_the_help_silently():
    command = f"{sys.executable} -m gpu_envs --help | head -1"
    done = subprocess.run(command, shell=True, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("usage: gpu-envs COMMAND ...\n", "")


def test_version_names_what_results_depend_on(capsys):
    code, out, err = run(capsys, "--version")
    assert (code, err) == (0, "")
    assert out.startswith(f"gpu-envs {gpu_envs.__version__} (Python ")
    assert f"torch {torch.__version__}" in out
    assert "warp-lang " in out


def test_folder_below_a_file_is_refused(capsys, tmp_path):
    (tmp_path / "file").touch()
    line = refused(capsys, "render", "SimpleTag-v0", "--steps", "1", "--size", "8", "--num-envs", "1",
                   "--output", str(tmp_path / "file" / "x.png"), "--device", "cpu")  # fmt: skip
    assert str(tmp_path / "file") in line


def test_render_prints_progress_and_output_file(capsys, tmp_path):
    path = tmp_path / "deep" / "x.PNG"
    argv = "render SimpleTag-v0 --steps 3 --size 16 --num-envs 2 --device cpu --env-arg max_episode_steps=2"
    code, out, err = run(capsys, *argv.split(), "--output", str(path))
    assert code == 0
    assert out == f"{path}\n"
    assert path.stat().st_size > 0
    assert [line.split() for line in err.splitlines()] == [["1", "/", "3", "steps"], ["3", "/", "3", "steps"]]


def test_check_prints_progress(capsys, monkeypatch):
    def check_one(subject):
        """Holds."""

    monkeypatch.setattr(env_checker, "LAWS", (check_one, check_one))
    code, out, err = run(capsys, "check", "SimpleTag-v0")
    assert code == 0
    assert re.fullmatch(
        r"SimpleTag-v0 passed all 3 checks in \d+\.\d s\n  definition .*\n  one  +Holds\n  one .*\n", out
    )
    assert [line.split() for line in err.splitlines()] == [
        ["1", "/", "3", "laws", "definition"],
        ["3", "/", "3", "laws", "one"],
    ]


def test_bench_prints_one_row_per_api(capsys):
    argv = ["bench", "SimpleTag-v0", "--num-envs", "4", "--seconds", "0.01", "--device", "cpu", "--num-threads", "1"]
    code, out, err = run(capsys, *argv)
    assert code == 0
    assert out.startswith("SimpleTag-v0: 4 worlds x 4 agents on cpu, fused, 1 threads\n")
    assert len(out.splitlines()) == 4
    assert err.splitlines()[-1].split()[:4] == ["9", "/", "9", "rounds"]


def test_closed_pipe_is_no_error(monkeypatch):
    failing(monkeypatch, BrokenPipeError)
    with open(os.devnull, "w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        assert dispatch.main(["fail"]) == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train SimpleTagg-v0", "did you mean SimpleTag-v0"),
        ("train SimpleTag-v0 --env-arg num_god=2", "did you mean num_good"),
        ("train SimpleTag-v0 --algorithm pppo", "did you mean ppo|expected one of"),
        ("train SimpleTag-v0 --num-envz 8", "did you mean --num-envs"),
        ("render SimpleTag-v0 --device cuda:99", "cuda:99.*use|expected"),
        ("eval NOWHERE", "create one with gpu-envs train ID --run-dir NOWHERE"),
        ("eval BAD", "manifest.json: .*expected"),
        ("train --resume NOWHERE", "create one with gpu-envs train ID --run-dir NOWHERE"),
        ("eval zoo:cartpole", "cartpole-ppo"),
        ("clone NOWHERE", "expected"),
        ("league report NOWHERE", "expected"),
        ("league resume NOWHERE", "expected"),
        ("tune --resume NOWHERE", "expected|pip install"),
    ],
)
def test_common_mistakes_print_what_to_do(capsys, tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "BAD").mkdir()
    (tmp_path / "BAD" / "manifest.json").write_text("{", encoding="utf-8")
    message = refused(capsys, *line.split())
    assert re.search(words, message), message
    assert not (tmp_path / "NOWHERE").exists()


def test_missing_extra_prints_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio", None)
    line = refused(
        capsys, "render", "SimpleTag-v0", "--steps", "1", "--size", "8", "--output", "x.mp4", "--device", "cpu"
    )
    assert re.search(r"pip install .*('imageio>=|\[train\])", line)


def imported_by(*words):
    """Return the modules that `python -m gpu_envs WORDS` imports, and its output."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gpu_envs", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}, done.stdout


@pytest.mark.parametrize(
    "line",
    [
        "list",
        "new meet --folder {folder}",
        *(pytest.param(line, marks=pytest.mark.slow) for line in ("--help", "list --help", "check --help")),
    ],
)
def test_commands_without_environment_import_neither_torch_nor_warp(line, tmp_path):
    modules, out = imported_by(*line.format(folder=tmp_path).split())
    assert "gpu_envs.cli.dispatch" in modules
    assert not modules & {"torch", "warp", "pyglet", "matplotlib", "scipy"}
    assert out


def test_python_m_gpu_envs_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "gpu_envs", "lst"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gpu-envs: error: no command named 'lst'; did you mean list?\n"


def test_package_has_all_names_of_its_all():
    import gpu_envs
    from gpu_envs.views import batched

    exports = [getattr(gpu_envs, name) for name in gpu_envs.__all__]
    assert all(callable(export) or isinstance(export, ModuleType) for export in exports)
    assert gpu_envs.make is batched.make
    with pytest.raises(AttributeError, match="has no attribute 'mke'"):
        gpu_envs.mke  # noqa: B018
