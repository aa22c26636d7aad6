"""Where figures come from: the machine, its versions, and the state of this repository."""

import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
THREADS = len(os.sched_getaffinity(0))
"""Cores that this process may use: threads of whatever has work for them, ours and peers alike."""
UNKNOWN, CHANGED = "unknown", " and uncommitted changes"
MEASURED = ("warp_kernels", "gpu_envs", "trainers", "league", "benchmarks", "constraints.txt")
"""What a figure depends on."""
RESULTS = ("benchmarks/results", "trainers/models")
"""What comes of measuring, and is no part of it."""


def commit() -> str:
    """The commit, and whether anything that figures depend on was changed since; "unknown" without git."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", *MEASURED, *(f":(exclude){path}" for path in RESULTS))
        return git("rev-parse", "--short=12", "HEAD") + (CHANGED if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN


@cache
def machine() -> dict[str, Any]:
    """Hardware and versions that figures depend on."""
    from benchmarks.bounds.build import FLAGS, compiler_version

    packages = ("torch", "warp-lang", "numpy", "gymnasium", "pettingzoo")
    return {
        "cpu": _cpu_model(),
        "cores": THREADS,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
        "gcc": f"{compiler_version()} {' '.join(FLAGS)}",
    }


def _cpu_model() -> str:
    seen: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        seen.setdefault(name.strip(), value.strip())
    features = [name for name in ("avx2", "avx512f") if name in seen.get("flags", "").split()]
    family = f"family {seen.get('cpu family', '?')} model {seen.get('model', '?')}"
    return f"{seen.get('model name', platform.processor())} ({family}, {', '.join(features)})"
