"""Install the peers, each into its own virtual environment: ``python -m benchmarks.peers.install [NAME ...]``.

Installed environments are not changed. A library that fails to install is reported, and the others continue.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.process import HOME, python

HERE = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in HERE.glob("*.txt")))
ALONE = "# without dependencies: "
"""Prefix of a line in a requirement file whose package is installed without its own requirements."""

OLD_CMAKE = {"CMAKE_POLICY_VERSION_MINIMUM": "3.5"}
"""Environment variable that lets CMake 4 build sources that ask for an older version, such as Hanabi's."""
NEWER = re.compile(r"# python: 3\.(\d+) or newer$", re.MULTILINE)
"""Line of a requirement file that asks for a newer Python, which is used if one is installed."""
NEWEST = 14
"""Largest minor version of Python to search for."""


def interpreter(requirements: str) -> str:
    """Return the Python for a library: the oldest one that its requirement file asks for, or the running one.

    The running one is used if the file asks for none, or if none is installed.
    """
    newer = NEWER.search(requirements)
    if newer is None or sys.version_info >= (3, int(newer[1])):
        return sys.executable
    for minor in range(int(newer[1]), NEWEST + 1):
        path = shutil.which(f"python3.{minor}")
        # A shim of pyenv exists for versions that are not selected, too, and fails.
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return sys.executable


def install(peer: str) -> str:
    """Install a library if its requirement file has changed.

    Returns:
        One line about the result.
    """
    requirements = (HERE / f"{peer}.txt").read_text()
    folder = HOME / peer
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text() == requirements:
        return "is there"
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    alone = [line.removeprefix(ALONE) for line in requirements.splitlines() if line.startswith(ALONE)]
    pip = [str(python(peer)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    commands = [
        [interpreter(requirements), "-m", "venv", str(folder)],
        [*pip, "-r", str(HERE / f"{peer}.txt")],
        *([*pip, "--no-deps", requirement] for requirement in alone),
    ]
    for command in commands:
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | OLD_CMAKE)
        if result.returncode != 0:
            lines = result.stderr.strip().splitlines()
            return f"FAILED: {lines[-1] if lines else ' '.join(command)}"
    stamp.write_text(requirements)
    return "installed"


def main(names: list[str]) -> int:
    """Install the given libraries, or all; fail only if none is installed at the end."""
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        print(f"no peer {unknown[0]}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    results = {}
    for peer in names or NAMES:
        results[peer] = install(peer)
        print(f"{peer}: {results[peer]}", flush=True)
    return int(all(result.startswith("FAILED") for result in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
