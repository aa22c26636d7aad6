"""Packages that the report needs beside torch, by the names of ``pyproject.toml``, and those that are missing here.

It imports the standard library only.
"""

import importlib.util
import platform
import re
import tomllib
from collections.abc import Iterable

from benchmarks.hardware.provenance import ROOT

__all__ = ["PINNED", "TESTS", "TRAINING", "carry_command", "missing", "needed", "project_packages"]

TRAINING = ("safetensors", "tensorboard")
"""Packages of the training part that the project does not require."""
TESTS = ("hypothesis", "matplotlib", "nashpy", "open_spiel", "pytest", "pytest-xdist", "scipy", *TRAINING)
"""Packages that tests on a GPU need in addition to the project's."""
PINNED = ROOT / "constraints.txt"
"""Versions of all packages."""
IMPORTED = {"warp-lang": "warp", "pytest-xdist": "xdist"}
"""Import names that differ from the package's name by more than a hyphen."""


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
