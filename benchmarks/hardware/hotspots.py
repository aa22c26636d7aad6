"""Share of the time of a step by layer of the code."""

import cProfile
import pstats
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.hardware.provenance import ROOT

ROOMS = (
    ("kernels", ("gpu_envs/runtime/launcher.py", "gpu_envs/runtime/item_launch.py", "warp/", "warp_kernels/")),
    ("the view", ("gpu_envs/views/", "gpu_envs/utils/agent_rows.py")),
    ("the core", ("gpu_envs/",)),
    ("the trainer", ("trainers/",)),
    ("the library", ("torchrl/", "tensordict/", "stable_baselines3/", "skrl/")),
    ("torch", ("torch/",)),
    ("NumPy", ("numpy/",)),
    ("Gymnasium and PettingZoo", ("gymnasium/", "pettingzoo/")),
)
"""Layer of a function by the prefix of its path; the first match counts."""


def shares(step: Callable[[], Any], seconds: float = 0.3) -> dict[str, float]:
    """Return the share of a step's time by layer, largest first.

    A profiler counts Python's calls and makes them slower: the shares of Python code are too large rather than too
    small. What kernels do on the calling thread counts as the runner's, which calls them.

    Args:
        step: Function of one step.
        seconds: Duration of the profile [s].
    """
    profile = cProfile.Profile()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        profile.runcall(step)
    spent: Counter[str] = Counter()
    for (file, _, name), (*_, own_time, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        spent[_room(_location(file, name))] += own_time
    total = sum(spent.values())
    return {room: own_time / total for room, own_time in spent.most_common()}


def format_shares(shares: dict[str, float], least: float = 0.05) -> str:
    """Return the shares as text."""
    return ", ".join(f"{room} {100 * share:.0f} %" for room, share in shares.items() if share >= least)


def _location(file: str, name: str) -> str:
    """Return the path of a function's file from its package; for a C function the package only."""
    file = file.replace("\\", "/")
    _, installed, path = file.rpartition("/site-packages/")
    if installed:
        return path
    if file.startswith(f"{ROOT.as_posix()}/"):
        return file.removeprefix(f"{ROOT.as_posix()}/")
    package = re.search(r"\b(torch|numpy)\b", name) if file == "~" else None
    return f"{package[1]}/" if package else ""


def _room(location: str) -> str:
    return next((room for room, marks in ROOMS if location.startswith(marks)), "other Python")
