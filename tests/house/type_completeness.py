"""Share of public names with known types, as pyright measures it for users of a typed package.

    python -m tests.house.type_completeness                fail if a package is below the required share
    python -m tests.house.type_completeness league         one package, with the names that lack types

`make lint` runs the first form.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("warp_kernels", "gpu_envs", "trainers", "league")
REQUIRED = 0.95
"""Smallest share of public names whose types are known."""


def measure(package, root=ROOT):
    """Return the share of public names with known types, and a line for every other name and its reason."""
    # pyright resolves the imports of the package with the Python that is first in PATH.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "pyright", "--outputjson", "--ignoreexternal", "--verifytypes", package]
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False, timeout=300)
    report = json.loads(done.stdout).get("typeCompleteness")
    if report is None or not report.get("symbols"):
        raise SystemExit(f"{package}: expected a report of pyright, got {(done.stderr or done.stdout)[:500]}")
    lines = []
    for symbol in report["symbols"]:
        if symbol["isExported"] and (not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]):
            reasons = [diagnostic["message"].replace("\n", " ") for diagnostic in symbol["diagnostics"]]
            lines.append(f"{symbol['name']}: {'; '.join(reasons) or 'uses a name without a known type'}")
    return report["completenessScore"], lines


def main(packages):
    """Print the share of every package; return 1 if one is below the required share."""
    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(packages or PACKAGES, pool.map(measure, packages or PACKAGES), strict=True))
    for package, (share, lines) in results.items():
        low = share < REQUIRED
        for line in lines if packages or low else ():
            print(f"  {line}")
        print(f"{package}: types of {share:.1%} of public names are known{f', expected {REQUIRED:.0%}' if low else ''}")
    return int(min(share for share, _ in results.values()) < REQUIRED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
