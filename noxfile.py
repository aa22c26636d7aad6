"""What needs libraries that `.venv` has not, each in an environment with what it demands.

`make test-libraries` runs the tests with other RL libraries, `make docs` builds the site.

A session's environment sees what the one that runs nox has (torch, Warp, pytest, ...), and installs only what
`tests/libraries/<session>.txt` names: the libraries, what they pull in, and what they demand in another version than
`constraints.txt`. Environments stay in `.nox/` for the next run.
"""

import os
import re
import sysconfig
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.reuse_venv = "yes"
nox.options.stop_on_first_error = False
nox.options.error_on_missing_interpreters = False  # nox's own default is True in CI

ROOT = Path(__file__).parent
TESTS = ROOT / "tests" / "libraries"
LIMIT = "15m"  # for the tests of a session, and for building the site


# They run tests/libraries/test_<session>*.py; `together` has the others.
ALONE = ("benchmarl", "browser", "docs", "ray", "recipes", "rllib")

EVERY_LAYER = ("test_laws.py", "test_errors.py", "views", "wrappers", "trainers/test_trainer.py", "league/test_psro.py")
"""Tests that newer versions of Python run: rules, core, views, a training and a league."""


@nox.session
def together(session: nox.Session) -> None:
    """Stable-Baselines3, TorchRL, skrl, SuperSuit, Lightning."""
    test(session)


@nox.session
def benchmarl(session: nox.Session) -> None:
    """BenchMARL, which needs an older TorchRL."""
    test(session)


@nox.session
def browser(session: nox.Session) -> None:
    """The viewer's page in headless Chromium, which the machine has to have."""
    test(session)


@nox.session
def ray(session: nox.Session) -> None:
    """Leagues and training on Ray."""
    test(session)


@nox.session
def recipes(session: nox.Session) -> None:
    """RSL-RL, CleanRL and Minari, as the guide's recipes use them."""
    test(session)


@nox.session
def rllib(session: nox.Session) -> None:
    """RLlib, which needs an older Gymnasium."""
    test(session)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The site, in out/docs: every link and every example of its pages is checked."""
    prepare(session)
    kept = ("-d", "out/doctrees")  # what has not changed is not read, or run, again
    strict = ("--fail-on-warning", "--keep-going", "--quiet", *kept)
    limited(session, "-m", "sphinx", *strict, "docs", "out/docs")
    run(session, TESTS / "test_docs.py", *(ROOT / "tests" / f"test_{what}.py" for what in ("links", "snippets")))


@nox.session(python=["3.12", "3.13", "3.14"], default=False, download_python="never")
def pythons(session: nox.Session) -> None:
    """A part of the quick tests in newer versions of Python, as far as they are installed."""
    tools = ("hypothesis", "mpe2", "pytest", "pytest-benchmark", "pytest-xdist")
    session.install("--disable-pip-version-check", "-c", "constraints.txt", "-e", ".[league]", *tools)
    run(session, *(ROOT / "tests" / name for name in EVERY_LAYER))


def test(session: nox.Session) -> None:
    """Install what a session needs; then run its files."""
    prepare(session)
    alone = {name: sorted(TESTS.glob(f"test_{name}*.py")) for name in ALONE}
    others = sorted({*TESTS.glob("test_*.py")}.difference(*alone.values()))
    files = alone.get(session.name, others)
    if not files:
        session.skip("no tests")
    run(session, *files)


def prepare(session: nox.Session) -> None:
    """Install what a session needs, and nothing that is not pinned."""
    wanted = TESTS / f"{session.name}.txt"
    constraints = Path(session.virtualenv.location) / "constraints.txt"
    merged = pins(ROOT / "constraints.txt") | pins(wanted)
    lines = [re.sub(r"\[.*\]", "", pin) for pin in merged.values()]  # pip takes no extras in constraints
    constraints.write_text("\n".join(lines) + "\n")
    share(session)
    session.install("--disable-pip-version-check", "-c", str(constraints), "-r", str(wanted))
    listed = session.run_install("python", "-m", "pip", "list", "--local", "--format=freeze", silent=True) or ""
    loose = [line for line in str(listed).splitlines() if spelled(line) not in {*merged, "pip", "setuptools", "wheel"}]
    if loose:
        hint = f"pin them in tests/libraries/{wanted.name}; what is left from an earlier run goes with .nox/"
        session.error(f"{' '.join(loose)}: {hint}")


def run(session: nox.Session, *files: Path) -> None:
    """Run files of tests."""
    workers = ("-n", os.environ.get("JOBS", "2"), "--dist", "loadfile") if len(files) > 1 else ()
    names = map(str, files)
    limited(session, "-m", "pytest", "-m", "not gpu", "--benchmark-disable", *workers, *names, *session.posargs)


def limited(session: nox.Session, *arguments: str) -> None:
    """Run Python, which stops after LIMIT."""
    session.run("timeout", "--kill-after=30s", LIMIT, "python", *arguments, external=True)


def share(session: nox.Session) -> None:
    """Let a session's environment see this one's packages, and the project, behind its own."""
    base = session.virtualenv.location
    home = Path(sysconfig.get_path("purelib", "venv", {"base": base, "platbase": base}))
    (home / "shared.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")


def pins(path: Path) -> dict[str, str]:
    """The lines of a file of requirements, by name."""
    lines = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    return {spelled(line): line for line in lines if line}


def spelled(requirement: str) -> str:
    """A requirement's name, as the packaging standard compares names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0]).lower()
