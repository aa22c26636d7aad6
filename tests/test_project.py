"""What holds the project together beside its code: extras, pins, limits of time."""

import functools
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[1]


@functools.cache
def noxfile():
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_is_all_that_goes_together():
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


def test_ci_stops_after_its_limit(tmp_path):
    make = tmp_path / "make"
    make.write_text("#!/bin/sh\nsleep 20\n", encoding="utf-8")
    make.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LIMIT": "0.2s"}
    done = subprocess.run(
        ["bash", ".ci/run"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=15, check=False
    )
    assert done.returncode == 124
    assert "stopped after 0.2s" in done.stderr
    for word, code in (("true", 0), ("false", 2)):
        make.write_text(f"#!/bin/sh\n{word} || exit 2\n", encoding="utf-8")
        env["LIMIT"] = "10s"
        done = subprocess.run(
            ["bash", ".ci/run"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=15, check=False
        )
        assert done.returncode == code
        assert done.stdout.count("took") == (0 if code else 5)


def test_sessions_stop_after_their_limit(tmp_path):
    nox, ran = noxfile(), []
    home = Path(nox.sysconfig.get_path("purelib", "venv", {"base": str(tmp_path), "platbase": str(tmp_path)}))
    home.mkdir(parents=True)
    session = SimpleNamespace(
        name="rllib",
        posargs=[],
        virtualenv=SimpleNamespace(location=str(tmp_path)),
        install=lambda *args: None,
        run_install=lambda *args, **settings: "",
        run=lambda *args, **settings: ran.append(args),
    )
    nox.test(session)
    assert ran[0][:3] == ("timeout", "--kill-after=30s", nox.LIMIT)
    short = [word.replace(nox.LIMIT, "0.2s") for word in ran[0][:3]]
    done = subprocess.run([*short, sys.executable, "-c", "import time; time.sleep(20)"], timeout=15, check=False)
    assert done.returncode == 124
