"""Parts of the report in their order: time, packages and command of each. It imports the standard library only."""

import importlib.util
import os
import platform
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.hardware.provenance import ROOT

TRAINING = ("pyyaml", "safetensors", "tensorboard")
"""Packages of the training part that the project does not require."""
TESTS = ("hypothesis", "matplotlib", "nashpy", "open_spiel", "pytest", "pytest-xdist", "scipy", *TRAINING)
"""Packages that tests on a GPU need in addition to the project's."""
PINNED = ROOT / "constraints.txt"
"""Versions of all packages."""
IMPORTED = {"warp-lang": "warp", "pytest-xdist": "xdist", "pyyaml": "yaml"}
"""Import names that differ from the package's name by more than a hyphen."""


@dataclass(frozen=True)
class ReportSection:
    """One part of the report, run in its own process."""

    name: str
    title: str
    seconds: float  # it may take, and what earlier parts have left
    needs: tuple[str, ...] = ()  # packages that the project does not require
    capped: bool = False  # it takes nothing of what earlier parts have left
    tool: str = ""  # a program of the CUDA toolkit that it needs


PLAN = (
    ReportSection("machine", "driver, torch, Warp, memory and its bandwidth", 45, capped=True),
    ReportSection("smoke", "smoke tests", 60, ("pytest",), capped=True),
    ReportSection("kernels", "kernels compiled beforehand", 40),
    ReportSection("goals", "SimpleTag by the million, and the many agents of WarpDrive's figure", 45),
    ReportSection("profiles", "profiles of kernels by Nsight Compute", 35, tool="ncu"),
    ReportSection("blocks", "threads of a block", 20),
    ReportSection("sweep", "one world to a million, schedules and layouts, captured and eager", 30),
    ReportSection("many-agents", "TagContinuous from 4 to 100,000 agents", 20),
    ReportSection("training", "training, learning included", 45, TRAINING),
    ReportSection("tests", "tests marked gpu", 50, ("pytest",)),
    ReportSection("racecheck", "races for shared memory, in networks", 25, ("pytest",), tool="compute-sanitizer"),
    ReportSection("synccheck", "barriers of the block schedule", 20, ("pytest",), tool="compute-sanitizer"),
    ReportSection("jaxmarl", "peer: JaxMARL's simple_tag", 23),
    ReportSection("gymnax", "peer: gymnax's CartPole", 6),
    ReportSection("vmas", "peer: VMAS's simple_tag", 6),
)
PEERS = ("jaxmarl", "gymnax", "vmas")
"""Parts with the name of the library that they need."""
SMOKE = (
    "tests/gpu/test_gpu.py::test_cpu_equals_gpu_step_by_step[CartPole-v1-fused]",
    "tests/gpu/test_gpu.py::test_cpu_equals_gpu_step_by_step[SimpleTag-v0-phased]",
    "tests/gpu/test_gpu.py::test_cpu_equals_gpu_step_by_step[TagContinuous-v0-block]",
    "tests/gpu/test_gpu.py::test_schedules_agree_on_the_gpu[SimpleTag-v0]",
    "tests/gpu/test_gpu.py::test_graph_replay_equals_eager[SimpleTag-v0-fused]",
    "tests/gpu/test_gpu.py::test_steps_do_not_wait_or_allocate[SimpleTag-v0]",
    "tests/gpu/test_gpu.py::test_works_on_any_stream[SimpleTag-v0]",
    "tests/gpu/test_gpu.py::test_random_play_is_step_after_step[SimpleTag-v0-fused]",
    "tests/gpu/test_gpu.py::test_captured_rollout_with_policy_equals_eager_steps",
    "tests/gpu/test_gpu.py::test_invalid_action_raises_in_a_later_call",
    "tests/gpu/test_gpu_many.py::test_kernels_compiled_beforehand_are_found",
    "tests/gpu/test_gpu_many.py::test_training_runs_and_resumes_on_the_device",
)
"""Tests of the smoke part: of the steps, graphs, streams, errors, compilation and training of two environments."""
SANITIZED = {
    "racecheck": ("tests/gpu/test_gpu_tile_acting.py",),
    "synccheck": ("tests/gpu/test_gpu_many.py::test_blocks_of_several_warps_agree_with_a_launch_per_phase",),
}
"""Tests by the tool of NVIDIA's Compute Sanitizer under which they run. It knows no races for global memory."""
PYTEST = ("-v", "--tb=short", "-p", "no:cacheprovider", "-m", "gpu", "--optimize", "--continue-on-collection-errors")


def project_packages() -> tuple[str, ...]:
    """Return the names of the project's requirements except torch, which has to be there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = (re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in project["dependencies"])
    return tuple(name for name in names if name != "torch")


def needed() -> tuple[str, ...]:
    """Return the names of all packages that the report needs beside torch; other libraries are optional."""
    return (*project_packages(), *TESTS)


def missing(names: Iterable[str]) -> list[str]:
    """Return the names of packages that cannot be imported here; none is imported."""
    return [name for name in names if importlib.util.find_spec(IMPORTED.get(name, name.replace("-", "_"))) is None]


def carry_command(names: Iterable[str]) -> str:
    """Return the command that lists the wheels of packages for this machine, to be run on another one."""
    python = ".".join(platform.python_version_tuple()[:2])
    return (
        f".venv/bin/python -m benchmarks.gpu.wheels --python {python} --machine {platform.machine()} {' '.join(names)}"
    )


def obstacle(part: ReportSection, device: str, arch: int | None) -> str:
    """Return why a part cannot be run here, in one line; "" if it can."""
    if part.name == "machine":
        return ""
    if lacking := missing((*project_packages(), *part.needs)):
        return f"lacks {', '.join(lacking)}"
    if part.name in PEERS and missing([part.name]):
        return f"not installed: {part.name}"
    if part.tool and not device.startswith("cuda"):
        return f"left out: {part.tool} needs a GPU"
    if part.tool and path_of(part.tool) is None:
        return f"not installed: {part.tool}"
    if part.name == "kernels" and not device.startswith("cuda"):
        return "left out: on a CPU kernels are compiled when they are first used"
    if part.name == "kernels" and arch is None:
        return "left out: the GPU's architecture is not known"
    return ""


def path_of(tool: str) -> str | None:
    """Return the path of a program of the CUDA toolkit, whose folder is often not in PATH."""
    return shutil.which(tool) or shutil.which(tool, path="/usr/local/cuda/bin")


def command(name: str, device: str, tiny: bool, arch: int | None) -> list[str]:
    """Return the command of a part."""
    flags = ["--device", device, *(["--tiny"] if tiny else [])]
    if name == "machine":
        return [sys.executable, "-m", "benchmarks.gpu.facts", *flags]
    if name == "kernels":
        return [sys.executable, "-m", "benchmarks.gpu.kernels", "--arch", str(arch)]
    if name == "profiles":
        return [sys.executable, "-m", "benchmarks.gpu.profiles", *flags]
    if name in SANITIZED:
        sanitizer = [path_of("compute-sanitizer") or "compute-sanitizer", "--tool", name, "--error-exitcode", "9"]
        return [*sanitizer, sys.executable, "-m", "pytest", *SANITIZED[name], *PYTEST]
    if name == "smoke":
        return [sys.executable, "-m", "pytest", *SMOKE, *PYTEST]
    if name == "tests":
        return [sys.executable, "-m", "pytest", *files_of_tests(), *PYTEST, *([] if tiny else _side_by_side())]
    return [sys.executable, "-m", "benchmarks.gpu.parts", name, *flags]


def _side_by_side() -> list[str]:
    """Return the options of pytest-xdist, if it is installed."""
    if importlib.util.find_spec("xdist") is None:
        return []
    return ["-n", str(min(6, max(1, len(os.sched_getaffinity(0)) // 2)))]


def files_of_tests() -> list[str]:
    """Return the test files with a test marked gpu."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in paths if re.search(r"\bmark\.gpu\b", path.read_text("utf-8"))]
