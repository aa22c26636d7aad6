"""The GPU report on an incomplete machine: its facts, missing packages and their wheels, and no GPU."""

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
import torch
import warp as wp

from benchmarks.gpu import facts, gpu_report, plan, process, wheels

ROOT = Path(__file__).resolve().parents[2]
OWN = ("gpu_envs", "league", "trainers", "warp_kernels")

HIDE = """
import importlib.machinery, os
hidden, find = os.environ["HIDDEN"].split(","), importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = classmethod(
    lambda cls, name, path=None, target=None: None if name in hidden else find(name, path, target)
)
"""
"""Code that Python runs at its start: packages are found as if they were not installed."""


def run(tmp_path, *options, **environment):
    """Run the report as a command, with modules of the temporary folder first."""
    words = [sys.executable, "-m", "benchmarks.gpu", "--out", str(tmp_path / "out"), *options]
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"PYTHONPATH": paths} | environment
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, env=env, timeout=300)


def result_of(tmp_path, name):
    return json.loads((tmp_path / "out" / f"{name}.json").read_text())


# ---------------------------------------------------------------- facts


def test_facts_come_before_packages_of_this_project(tmp_path):
    """Without them and without gymnasium, the facts are printed, then all missing packages in one line."""
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    hidden = ",".join((*OWN, "gymnasium", "pettingzoo", "hypothesis"))
    done = run(tmp_path, "--tiny", "--device", "cpu", "--only", "goals", "tests", "training", HIDDEN=hidden)
    assert done.returncode == 1, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    facts = [line.partition(":")[0] for line in lines[1:8]]
    assert facts == ["driver", "system", "packages", "torch", "Warp", "memory", "bandwidth"]
    assert lines[4].startswith(f"torch: {torch.__version__}, CUDA {torch.version.cuda}, GPUs: ")
    assert lines[5].startswith(f"Warp: {wp.__version__}, CUDA ")
    assert re.fullmatch(r"bandwidth: [\d,.]+ GB/s, read \+ write, by a copy in torch", lines[7])
    assert lines[8].startswith("done, ")
    assert lines[9].startswith("not installed: gymnasium, pettingzoo, hypothesis. Install them, or, for a machine")
    assert "benchmarks.gpu.wheels --python 3." in lines[9]
    assert "gymnasium pettingzoo hypothesis`" in lines[9]
    parts = result_of(tmp_path, "cpu")["parts"]
    assert parts.pop("machine")["status"] == "done"
    assert {part["status"] for part in parts.values()} == {"lacks gymnasium, pettingzoo"}
    assert set(parts) == {"goals", "tests", "training"}
    assert lines[-1] == "failed: goals, training, tests"


def test_report_imports_no_library_itself():
    """A library that hangs or crashes at its import stops one part, not the report."""
    code = "import sys; import benchmarks.gpu.gpu_report; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "benchmarks" in done.stdout.split()
    assert not {*OWN, "torch", "warp", "numpy", "gymnasium"} & set(done.stdout.split())


@pytest.mark.parametrize("name", ["torch", "memory"])
def test_facts_follow_a_failed_one(name, monkeypatch, capsys):
    """As the command of the first part prints them."""

    def fails(device, tiny):
        raise OSError("libcuda is damaged")

    quick = {fact: facts.FACTS[fact] for fact in ("system", "packages", "torch", "memory")}
    monkeypatch.setattr(facts, "FACTS", quick | {name: fails})
    facts.main(["--device", "cpu", "--tiny"])
    printed = capsys.readouterr().out
    heads = [line.partition(":")[0].strip() for line in printed.splitlines() if not line.startswith("ROW ")]
    assert heads == list(quick)
    assert f"{name}: OSError: libcuda is damaged\n" in printed


@pytest.mark.parametrize(
    ("machine", "line"),
    [
        ({}, "torch does not start (done): install a build with CUDA"),
        ({"torch": "2.9", "cuda": None, "gpus_of_torch": 0}, "torch 2.9 (CUDA None) sees no GPU: check nvidia-smi"),
        ({"torch": "2.9", "cuda": "13.0", "gpus_of_torch": 1}, "Warp does not start (done): see "),
        (
            {"torch": "2.9", "cuda": "13.0", "gpus_of_torch": 1, "gpus_of_warp": 0},
            f"Warp {wp.__version__} is built with",
        ),
    ],
)
def test_machine_without_a_gpu_ends_the_report_with_one_line(tmp_path, monkeypatch, capsys, machine, line):
    code = f"print('ROW ' + json.dumps({{'machine': {machine}}}))"
    monkeypatch.setattr(plan, "command", lambda *_: [sys.executable, "-c", f"import json; {code}"])
    monkeypatch.setattr(process, "without_core_dumps", lambda: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(gpu_report.signal, "signal", lambda *_: None)
    assert gpu_report.main(["--out", str(tmp_path)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(line)
    assert json.loads((tmp_path / "unknown.json").read_text())["problem"] == last


# ---------------------------------------------------------------- packages and wheels


def test_needed_packages_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    declared = {re.split(r"[^\w.-]", line)[0] for line in lines}
    assert set(plan.needed()) < declared - {"torch"}
    assert {"gymnasium", "warp-lang", "hypothesis", "tensorboard", "safetensors"} < set(plan.needed())
    assert plan.missing(plan.needed()) == []
    assert plan.missing(["numpy", "not-there", "warp-lang", "nor-this"]) == ["not-there", "nor-this"]


def test_wheels_are_pinned_and_complete(capsys):
    assert wheels.main(["--python", "3.12"]) == 0
    lines = capsys.readouterr().out.replace(" \\\n", " ").split()
    assert {"--no-deps", "--only-binary=:all:", "3.12", "manylinux_2_28_x86_64"} < set(lines)
    carried = {word for word in lines if "==" in word}
    assert carried < set((ROOT / "constraints.txt").read_text().splitlines())
    names = {word.partition("==")[0] for word in carried}
    assert set(plan.needed()) < {name.lower() for name in names} | names
    assert {"Farama-Notifications", "cloudpickle", "tensorboard-data-server", "sortedcontainers"} < names
    assert not {"torch", "typing_extensions", "sympy", "networkx"} & names  # they are where torch is
    assert wheels.pins(["gymnasium"], "3.12", "x86_64") == [
        *sorted(word for word in carried if word.startswith("cloudpickle")),
        *sorted(word for word in carried if word.startswith(("Farama", "gymnasium", "numpy"))),
    ]


def test_wheels_depend_on_the_other_python(monkeypatch):
    needs = {"gymnasium": ["numpy", "scipy; python_version < '3.12'", "pillow; extra == 'x'"], "torch": []}
    monkeypatch.setattr(wheels, "requires", lambda name: needs.get(name, []))
    names = [[pin.partition("==")[0] for pin in wheels.pins(["gymnasium"], p, "x86_64")] for p in ("3.11", "3.12")]
    assert names == [["gymnasium", "numpy", "scipy"], ["gymnasium", "numpy"]]


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        (["no-such-package"], 1, "no-such-package: not installed here; run this in the .venv of `make install`"),
        (["--python", "3"], 2, "--python: expected a version such as 3.12, got 3"),
    ],
)
def test_wheels_that_cannot_be_listed_are_named_in_one_line(capsys, options, code, line):
    assert wheels.main(options) == code
    assert capsys.readouterr().err == f"{line}\n"


@pytest.mark.slow
def test_carried_packages_are_enough(tmp_path):
    """Beside torch and what it requires, no package that is not carried can be imported, and all parts for CPUs run."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    site = tmp_path / "site"
    site.mkdir()
    names = wheels._closure(["torch", *plan.needed()], python, "x86_64")
    assert {"torch", "sympy", "gymnasium"} < names
    assert not {"mpe2", "matplotlib-inline", "imageio", "rich"} & names
    for name in names:
        try:
            files = distribution(name).files or []
        except ModuleNotFoundError:  # CUDA's libraries, if torch is a build without
            continue
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            link, source = site / top, Path(distribution(name).locate_file(top))
            if not link.exists():
                link.symlink_to(source)
    venv.create(tmp_path / "env", with_pip=False)
    words = [str(tmp_path / "env" / "bin" / "python"), "-m", "benchmarks.gpu", "--tiny", "--device", "cpu"]
    env = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(
        [*words, "--out", str(tmp_path / "out")], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "\nnot installed: " not in done.stdout
    parts = result_of(tmp_path, "cpu")["parts"]
    assert [name for name, part in parts.items() if part["status"] == "done"] == [
        part.name for part in plan.PLAN if not part.tool and part.name not in (*plan.PEERS, "kernels")
    ]
    assert not [row for part in parts.values() for row in part["rows"] if "error" in row]
    for name in ("goals", "sweep", "many-agents", "training"):
        assert all(row["value"] > 0 for row in parts[name]["rows"])
    modes = {row["mode"] for row in parts["goals"]["rows"]}
    assert modes == {"bytes", "in place", "copied", "sampled", "random play", "eager"}
    assert "## Goals" in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"cpu.json", "cpu.md", "log.txt"}
