"""Project files: extras, pinned versions, time limits."""

import functools
import importlib.util
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@functools.cache
def noxfile():
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_extra_all_has_every_compatible_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (line,) = extras["all"]
    assert set(re.fullmatch(r"gpu-envs\[(.*)\]", line)[1].split(",")) == set(extras) - {"all", "dev", "rllib"}


def test_every_version_is_pinned_once():
    """But for what a session demands in another version."""
    pins = noxfile().pins
    common = pins(ROOT / "constraints.txt")
    for path in (ROOT / "tests" / "libraries").glob("*.txt"):
        assert not [line for name, line in pins(path).items() if common.get(name) == line], path.name
    assert not common.keys() & pins(ROOT / "tests" / "libraries" / "together.txt").keys()


def test_wheel_is_tried_in_every_python_of_the_classifiers():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    named = {line.rpartition(" ")[2] for line in classifiers if re.search(r"Python :: 3\.\d+$", line)}
    assert named
    assert named <= set(noxfile().wheel.python)


def test_no_test_can_call_a_package_manager():
    done = subprocess.run(["sh", "-c", "apt-get update"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (97, "apt-get: a test may not change the machine\n")


COREUTILS = ("bash", "dirname", "id", "sh", "sleep", "timeout")  # that scripts call and that change nothing


@pytest.fixture
def machine(tmp_path):
    """Function that runs a script of .ci where every command is replaced, and returns what it called."""
    folder, calls = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    for name in COREUTILS:
        (folder / name).symlink_to(shutil.which(name))

    def run(script, commands, **environment):
        calls.write_text("")
        for name, body in commands.items():
            (folder / name).unlink(missing_ok=True)
            (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {calls}\n{body}\n', encoding="utf-8")
            (folder / name).chmod(0o755)
        command, env = [shutil.which("bash"), f".ci/{script}"], {"PATH": str(folder), **environment}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
        return done, calls.read_text().splitlines()

    return run


def calls_of(part, python="3.12"):
    """Return the calls of .ci/run that runs this part of the slow tests and sessions."""
    third = f"docs pythons-{python} together browser benchmarl"
    names = ("ray docs recipes experiments", "ptxas docs rllib host", third)[part - 1].split()
    together = " ".join(["--jobs=2 --output-sync=target --keep-going", *(f"session-{name}" for name in names)])
    slow = f"test-slow PARITY=-k recorded ARGS=--part {part}/3"
    return [f"make {call}" for call in ("test", "lint", slow, together)]


@pytest.mark.parametrize(("make", "code", "count"), [("true", 0, 4), ("exit 2", 2, 1), ("[ $1 != --jobs=2 ]", 1, 4)])
def test_ci_calls_every_target_and_stops_at_the_first_failure(machine, make, code, count):
    done, calls = machine("run", {"chromium": "", "make": make, "git": "exit 1"})
    assert (done.returncode, calls[1:]) == (code, calls_of(part=1)[:count])


@pytest.mark.parametrize(("commits", "part", "python"), [(0, 1, ""), (2, 3, "3.12"), (5, 3, "3.13"), (1408, 2, "")])
def test_ci_runs_another_part_at_the_next_commit(machine, commits, part, python):
    commands = {"chromium": "", "make": "true", "git": f"echo {commits}"}
    assert machine("run", commands)[1][1:] == calls_of(part, python)
    assert machine("run", commands, PART="2")[1][1:] == calls_of(2, python)


def test_ci_runs_every_session_that_is_not_of_an_original():
    nox = noxfile()
    sessions = {
        name for name, session in vars(nox).items() if hasattr(session, "tags") and "parity" not in session.tags
    }
    calls = " ".join(calls_of(part)[-1] for part in (1, 2, 3)).split()
    listed = {call.partition("-")[2].partition("-3.")[0] for call in calls if call.startswith("session-")}
    assert {*listed, "wheel"} == sessions  # the session of a release
    assert {"3.12", "3.13"} < {*nox.pythons.python}


def test_ci_stops_after_its_limit_and_installs_chromium_only_where_it_is_missing_and_only_as_root(machine):
    """The limit does not hold for the installation: a killed apt-get leaves a machine that cannot install anything."""
    root = {"id": "echo 0", "dpkg": "", "apt-get": "sleep 0.2"}
    done, calls = machine("run", {**root, "make": "sleep 60"}, LIMIT="0.1s")
    apt = ["dpkg --configure -a", "apt-get update -qq", "apt-get install -y -qq --no-install-recommends chromium"]
    assert (done.returncode, [call for call in calls if not call.startswith(("id", "make"))]) == (124, apt)
    assert "stopped after 0.1s" in done.stderr
    done, calls = machine("setup", {"id": "echo 1000"})
    assert (done.returncode, calls) == (0, ["id -u"])
    assert "found none; install the package chromium as root" in done.stderr
    done, calls = machine("setup", {"chromium": ""})
    assert (done.returncode, calls, done.stderr) == (0, [], "")
