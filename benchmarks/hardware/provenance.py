"""Provenance of figures: machine, versions and state of the repository."""

import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
THREADS = len(os.sched_getaffinity(0))
"""Number of cores of this process, also the number of threads of each contender."""
UNKNOWN, CHANGED = "unknown", " and uncommitted changes"
MEASURED = ("warp_kernels", "gpu_envs", "trainers", "league", "benchmarks", "constraints.txt")
"""Paths on which figures depend."""
RESULTS = ("benchmarks/results", "trainers/zoo")
"""Paths of results, on which figures do not depend."""


def commit() -> str:
    """Return the commit and whether files were changed since; "unknown" without git."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", *MEASURED, *(f":(exclude){path}" for path in RESULTS))
        return git("rev-parse", "--short=12", "HEAD") + (CHANGED if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN


@cache
def machine() -> dict[str, Any]:
    """Return what figures depend on: hardware, versions, and the variables that change how kernels compile."""
    from benchmarks.hardware.bounds import FLAGS, compiler_version
    from warp_kernels import HEADERS_VARIABLE, OPTIMIZATION_VARIABLE

    packages = ("torch", "warp-lang", "numpy", "gymnasium", "pettingzoo")
    return {
        "cpu": _cpu_model(),
        "cores": THREADS,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
        "gcc": f"{compiler_version()} {' '.join(FLAGS)}",
        **{name: os.environ[name] for name in (HEADERS_VARIABLE, OPTIMIZATION_VARIABLE) if os.environ.get(name)},
    }


def _cpu_model() -> str:
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    features = [name for name in ("avx2", "avx512f") if name in fields.get("flags", "").split()]
    family = f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
    return f"{fields.get('model name', platform.processor())} ({family}, {', '.join(features)})"
