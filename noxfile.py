"""Sessions that need libraries besides those of `.venv`, each in its own environment.

`make test-libraries` runs the tests with other RL libraries, `make docs` builds the site.

The environment of a session sees the packages of the environment that runs nox (torch, Warp, pytest, ...). It installs
only the requirements in `tests/libraries/<session>.txt`: the libraries, their dependencies, and other versions than
those of `constraints.txt`. Environments stay in `.nox/` for the next run.
"""

import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.reuse_venv = "yes"
nox.options.stop_on_first_error = False
nox.options.error_on_missing_interpreters = False  # nox's own default is True in CI

ROOT = Path(__file__).parent
TESTS = ROOT / "tests" / "libraries"
LIMIT = "40m"  # for the tests of a session, and for building the site; two sessions may share the cores

PIP_OPTIONS = ("--disable-pip-version-check", "--no-compile")
"""Modules are compiled at their first import: most of the installed ones are never imported."""

NICENESS = "RAY_worker_niceness"
"""Variable with the priority of Ray's workers. Ray's own value, 15, would let them wait for all else on the machine."""

# These sessions run tests/libraries/test_<session>*.py; the session `together` runs the other files.
ORACLES = {
    "ai_economist": "OneStepEconomy-v0 and GatherTradeBuild-v0, with only NumPy of what their originals require.",
    "hanabi": "Hanabi-v0, whose original is compiled: CMake and a C++ compiler must be there.",
    "jaxmarl": "SwitchRiddle-v0, CoinGame-v0, SMAX-v0, OvercookedV2-v0, Overcooked-v0; training on JaxMARL.",
    "jumanji": "Connector-v0.",
    "lbforaging": "LevelBasedForaging-v0.",
    "overcooked": "Overcooked-v0.",
    "rware": "RobotWarehouse-v0.",
    "sisl": "Pursuit-v0.",
    "socialjax": "CommonsHarvest-v0; the variable SOCIALJAX names the folder of SocialJax's source.",
    "vmas": "Environments VMAS*-v0, and the physics of their bodies.",
    "warpdrive": "TagContinuous-v0 and TagGridworld-v0, with only Gym of what their originals require.",
}
"""Environments by the library with their originals, which `make test-parity` plays."""
LIMIT_OF_ORACLES = "60m"  # their Python is slow, or JAX compiles it for every setting

ALONE = (
    "benchmarl", "browser", "docs", "envpool", "experiments", "host", "ptxas", "ray", "recipes", "rllib", *ORACLES,
)  # fmt: skip

EVERY_LAYER = (
    "gpu_envs/runtime/test_conformance.py",
    "gpu_envs/test_errors.py",
    "gpu_envs/runtime/test_parameters.py",
    "gpu_envs/views",
    "gpu_envs/wrappers",
    "trainers/runner/test_trainer.py",
    "league/psro/test_psro.py",
)
"""Tests that newer versions of Python run: rules, core, views, a training and a league."""

TRAIN = "gpu-envs train SimpleTag-v0 --device cpu --num-envs 16 --total-steps 4096 --eval-episodes 0 --run-dir run"
LEAGUE = "gpu-envs league train KuhnPoker-v0 --device cpu --oracle exact --iterations 2 --run-dir league"
USE_OF_WHEEL = (
    ("python", "-c", "import gpu_envs, league, trainers, warp_kernels; print(gpu_envs.__version__, gpu_envs.__file__)"),
    ("gpu-envs", "list"),
    ("gpu-envs", "check", "SimpleTag-v0"),
    ("gpu-envs", "eval", "zoo:cartpole-ppo", "--device", "cpu", "--episodes", "10"),
    tuple(TRAIN.split()),
    tuple(LEAGUE.split()),
)
"""Commands that an installed wheel runs from an empty folder."""


@nox.session
def together(session: nox.Session) -> None:
    """Stable-Baselines3, TorchRL, skrl, SuperSuit, Lightning."""
    # Stable-Baselines3 otherwise makes a folder in /tmp per run.
    session.env["SB3_LOGDIR"] = str(Path(session.virtualenv.location) / "sb3_logs")
    test(session)


@nox.session
def benchmarl(session: nox.Session) -> None:
    """BenchMARL, which needs an older TorchRL."""
    test(session)


@nox.session
def browser(session: nox.Session) -> None:
    """The page of the viewer in headless Chromium, which must be installed."""
    test(session)


@nox.session
def experiments(session: nox.Session) -> None:
    """Statistics and files of experiments by rliable and marl-eval."""
    test(session)


@nox.session
def host(session: nox.Session) -> None:
    """Environments of Gymnasium, PettingZoo, MAgent2 and OpenSpiel in plain Python, with little training."""
    test(session)


@nox.session(default=False, tags=["parity"])
def envpool(session: nox.Session) -> None:
    """Tasks of EnvPool, whose packages with the assets that it imports are 300 MB."""
    test(session)


@nox.session
def ptxas(session: nox.Session) -> None:
    """Registers and stack of all GPU kernels, by NVIDIA's assembler; `-- record` records them and writes the page."""
    if session.posargs[:1] == ["record"]:
        prepare(session)
        limited(session, "-m", "benchmarks.kernels", *session.posargs[1:])
    else:
        test(session)


@nox.session
def ray(session: nox.Session) -> None:
    """Leagues and training on Ray."""
    session.env[NICENESS] = "0"
    test(session)


@nox.session
def recipes(session: nox.Session) -> None:
    """RSL-RL, CleanRL, RL Zoo, Minari, ONNX and agents of OpenSpiel, as the guide's recipes use them; loggers."""
    test(session)


@nox.session
def rllib(session: nox.Session) -> None:
    """RLlib, which needs an older Gymnasium."""
    session.env[NICENESS] = "0"
    test(session)


def oracle_session(name: str) -> None:
    """Register a session that compares environments with their originals."""

    def compare(session: nox.Session) -> None:
        if name == "hanabi":
            session.env["CMAKE_POLICY_VERSION_MINIMUM"] = "3.5"  # the original asks for a version that CMake 4 refuses
        if name == "socialjax" and "SOCIALJAX" not in os.environ:
            session.skip("SOCIALJAX: expected the folder of SocialJax's source, see socialjax_oracle.py")
        test(session)

    compare.__doc__ = f"Comparison with the originals: {ORACLES[name]}"
    nox.session(compare, name=name, default=False, tags=["parity"])


for library in ORACLES:
    oracle_session(library)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the site in out/docs with the cells of its tutorials run, and check its links."""
    prepare(session)
    session.env["GPU_ENVS_PRECOMPILED_HEADERS"] = "1"  # each notebook compiles several modules
    kept = ("-d", "out/doctrees")  # unchanged pages are not built again
    strict = ("--fail-on-warning", "--keep-going", "--quiet", *kept)
    limited(session, "-m", "sphinx", *strict, "docs", "out/docs")
    run(session, TESTS / "test_docs.py")


@nox.session(python=["3.12", "3.13", "3.14"], default=False, download_python="never")
def pythons(session: nox.Session) -> None:
    """Part of the quick tests, then the wheel, in newer installed versions of Python."""
    tools = ("hypothesis", "mpe2", "pytest", "pytest-benchmark", "pytest-xdist")
    session.install(*PIP_OPTIONS, "-c", "constraints.txt", "-e", ".[league]", *tools)
    run(session, *(ROOT / "tests" / name for name in EVERY_LAYER), marks="not gpu and not slow and not learning")
    session.install("--disable-pip-version-check", "--no-deps", "--force-reinstall", str(build_wheel(session)))
    use_wheel(session)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"], default=False, download_python="never", reuse_venv=False)
def wheel(session: nox.Session) -> None:
    """The wheel with its dependencies in a new environment of every installed version of Python."""
    built = build_wheel(session)
    session.install("--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"), f"{built}[league]")
    use_wheel(session)


def build_wheel(session: nox.Session) -> Path:
    """Build the wheel with the environment that runs nox, in the temporary folder of a session."""
    folder = Path(session.create_tmp())
    shutil.rmtree(folder)
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    session.run(sys.executable, *build, external=True, silent=True)
    (built,) = folder.glob("*.whl")
    return built


def use_wheel(session: nox.Session) -> None:
    """Check the dependencies of the installed wheel, and use it from an empty folder."""
    session.run("python", "-m", "pip", "check", "--disable-pip-version-check")
    empty = Path(session.create_tmp()) / "empty"
    empty.mkdir()
    with session.chdir(empty):
        for command in USE_OF_WHEEL:
            env = {"PYTHONPATH": "", "GPU_ENVS_OPTIMIZATION_LEVEL": "0"}  # compiles faster
            session.run("timeout", "--kill-after=30s", LIMIT, *command, external=True, env=env)


def test(session: nox.Session) -> None:
    """Install the requirements of a session and run its test files."""
    prepare(session)
    alone = {name: sorted(TESTS.glob(f"test_{name}*.py")) for name in ALONE}
    others = sorted({*TESTS.glob("test_*.py")}.difference(*alone.values()))
    files = alone.get(session.name, others)
    if not files:
        session.skip("no tests")
    run(session, *files)


def prepare(session: nox.Session) -> None:
    """Install the requirements of a session; fail if a package is not pinned."""
    wanted = TESTS / f"{session.name}.txt"
    constraints = Path(session.virtualenv.location) / "constraints.txt"
    merged = pins(ROOT / "constraints.txt") | pins(wanted)
    lines = [re.sub(r"\[.*\]", "", pin) for pin in merged.values()]  # pip takes no extras in constraints
    constraints.write_text("\n".join(lines) + "\n")
    share(session)
    # EnvPool requires 90 MB of assets; MAgent2 another pygame; nvcc, which is not used, 80 MB more; ai-economist the
    # versions of 2021 of Jupyter and other tools, marl-eval those of 2022, overcooked_ai Jupyter, and WarpDrive Numba
    # and PyCUDA
    alone = ("ai_economist", "envpool", "experiments", "host", "overcooked", "ptxas", "warpdrive")
    few = ("--no-deps",) if session.name in alone else ()
    session.install(*PIP_OPTIONS, *few, "-c", str(constraints), "-r", str(wanted))
    listed = session.run_install("python", "-m", "pip", "list", "--local", "--format=freeze", silent=True) or ""
    loose = [line for line in str(listed).splitlines() if spelled(line) not in {*merged, "pip", "setuptools", "wheel"}]
    if loose:
        hint = f"pin them in tests/libraries/{wanted.name}; remove .nox/ to discard packages of earlier runs"
        session.error(f"{' '.join(loose)}: {hint}")


def run(session: nox.Session, *files: Path, marks: str = "not gpu") -> None:
    """Run the tests of files that have these marks."""
    slow = session.name in ORACLES
    workers = ("-n", os.environ.get("JOBS", "2"), "--dist", "worksteal" if slow else "loadfile")
    options = ("--benchmark-disable", *(("--optimize",) if slow else ()), *(workers if slow or len(files) > 1 else ()))
    limited(session, "-m", "pytest", "-m", marks, *options, *map(str, files), *session.posargs)


def limited(session: nox.Session, *arguments: str) -> None:
    """Run Python with a time limit."""
    limit = LIMIT_OF_ORACLES if session.name in ORACLES else LIMIT
    session.run("timeout", "--kill-after=30s", limit, "python", *arguments, external=True)


def share(session: nox.Session) -> None:
    """Let the environment of a session import the project and the packages of this environment, after its own."""
    base = session.virtualenv.location
    home = Path(sysconfig.get_path("purelib", "venv", {"base": base, "platbase": base}))
    (home / "shared.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")


def pins(path: Path) -> dict[str, str]:
    """Return the lines of a requirements file by package name."""
    lines = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    return {spelled(line): line for line in lines if line}


def spelled(requirement: str) -> str:
    """Return the normalized package name of a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0]).lower()
