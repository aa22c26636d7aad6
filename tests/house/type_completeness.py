"""Fail if pyright knows the types of too few public names of a package, as `make lint` does.

`pyright --ignoreexternal --verifytypes PACKAGE` lists the names without a known type.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

PACKAGES = ("warp_kernels", "gpu_envs", "trainers", "league")
REQUIRED = 0.95
"""Smallest share of public names whose types are known."""

if __name__ == "__main__":
    # pyright resolves the imports of a package with the first Python in PATH
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": "."}
    shares = {}
    for package in PACKAGES:
        command = [sys.executable, "-m", "pyright", "--outputjson", "--ignoreexternal", "--verifytypes", package]
        report = subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout
        shares[package] = json.loads(report)["typeCompleteness"]["completenessScore"]
        print(f"{package}: types of {shares[package]:.1%} of public names are known, expected {REQUIRED:.0%}")
    sys.exit(min(shares.values()) < REQUIRED)
