"""List the wheels to carry to a machine that has torch and no network: a command of pip that downloads them.

python -m benchmarks.gpu.wheels                        all that the report needs beside torch
python -m benchmarks.gpu.wheels gymnasium warp-lang    some packages and their requirements

Run it in the environment of `make install`: the requirements of a package are read from its installed metadata, the
versions from constraints.txt. Packages that torch requires are left out, since a machine with torch has them.
"""

import argparse
import platform
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires

from benchmarks.gpu.plan import PINNED, needed

PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux_2_5", "manylinux1")
"""Tags of wheels that a Linux with glibc 2.28 or newer installs; pip takes only the tags that it is given."""


class WheelError(Exception):
    """A package whose wheels cannot be listed."""


def pins(names: Iterable[str], python: str, machine: str) -> list[str]:
    """Return ``NAME==VERSION`` of packages and all their requirements, except torch and its requirements.

    Args:
        names: Names of packages.
        python: Version of Python on the other machine, such as "3.12".
        machine: Its architecture, such as "x86_64".

    Raises:
        WheelError: A package is not installed here, or constraints.txt does not pin it.
    """
    from packaging.utils import canonicalize_name

    lines = [line for line in PINNED.read_text("utf-8").splitlines() if "==" in line]
    pinned = {str(canonicalize_name(line.partition("==")[0])): line for line in lines}
    carried = _closure(names, python, machine) - _closure(["torch"], python, machine)
    if unknown := sorted(carried - pinned.keys()):
        raise WheelError(f"{PINNED.name}: expected a version of {', '.join(unknown)}; add it")
    return [pinned[name] for name in sorted(carried)]


def download_command(names: Iterable[str], python: str, machine: str) -> str:
    """Return the command that downloads the wheels of packages into the folder ``out/wheels``."""
    lines = [
        "python3 -m pip download --no-deps --only-binary=:all: -d out/wheels",
        f"--implementation cp --python-version {python}",
        *(f"--platform {tag}_{machine}" for tag in PLATFORMS),
        *pins(names, python, machine),
    ]
    return " \\\n    ".join(lines)


def _closure(names: Iterable[str], python: str, machine: str) -> set[str]:
    """Return the canonical names of packages and all their requirements there."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    environment = {"python_version": python, "python_full_version": f"{python}.0", "platform_machine": machine}
    environment |= {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    waiting = [(name, "") for name in names]
    visited: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        name = canonicalize_name(name)
        if (name, extra) in visited:
            continue
        visited.add((name, extra))
        try:
            lines = requires(name) or []
        except PackageNotFoundError:
            if name.startswith(("nvidia-", "cuda-", "triton")):  # of another build of torch
                continue
            raise WheelError(f"{name}: not installed here; run this in the .venv of `make install`") from None
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({**environment, "extra": extra}):
                waiting += [(requirement.name, option) for option in ("", *requirement.extras)]
    return {name for name, _ in visited}


def main(argv: list[str]) -> int:
    """Print the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.wheels", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="packages; without any, all that the report needs")
    default = ".".join(platform.python_version_tuple()[:2])
    parser.add_argument("--python", default=default, help="version of Python on the other machine, such as 3.12")
    parser.add_argument("--machine", default="x86_64", help="its architecture: x86_64 or aarch64")
    args = parser.parse_args(argv)
    if not re.fullmatch(r"3\.\d+", args.python):
        print(f"--python: expected a version such as 3.12, got {args.python}", file=sys.stderr)
        return 2
    try:
        print(download_command(args.names or needed(), args.python, args.machine))
    except WheelError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
