"""The machine, before a package of this project is imported: driver, torch, Warp, memory and its bandwidth.

python -m benchmarks.gpu.facts

Only the standard library, torch and Warp are imported. Each fact is printed as soon as it is known. A fact that fails
is printed with the reason, and the next ones follow.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

Fact = tuple[str, dict[str, Any]]
"""A line, and a row of the result file."""
SMALL = 16 << 20
"""Bytes of the copy in a tiny run."""
PACKAGES = ("numpy", "gymnasium", "pettingzoo", "pytest", "jax", "jaxmarl", "gymnax", "vmas")


def _driver(device: str, tiny: bool) -> Fact:
    if not device.startswith("cuda"):
        return "not needed on a CPU", {"machine": {}}
    words = ["nvidia-smi", "--query-gpu=driver_version,name,memory.total", "--format=csv,noheader"]
    output = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    gpus = [line.partition(", ") for line in output.splitlines()]
    number = gpus[0][0] if gpus else "unknown"
    return "; ".join([number, *(name for _, _, name in gpus)]), {"machine": {"driver": number}}


def _system(device: str, tiny: bool) -> Fact:
    about = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }
    return f"{about['system']}, {about['cores']} cores, Python {about['python']}", {"machine": about}


def _packages(device: str, tiny: bool) -> Fact:
    versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return ", ".join(f"{name} {number}" for name, number in versions.items()), {"machine": versions}


def _torch(device: str, tiny: bool) -> Fact:
    import torch

    reason, count = "", torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as error:  # no driver, an old driver, or a build without CUDA
            reason = " ".join(str(error).split())
    line = f"{torch.__version__}, CUDA {torch.version.cuda}, GPUs: {count}{f' ({reason})' if reason else ''}"
    fields = {"torch": torch.__version__, "cuda": torch.version.cuda, "gpus_of_torch": count}
    return line, {"machine": fields}


def _warp(device: str, tiny: bool) -> Fact:
    with contextlib.redirect_stdout(sys.stderr):  # its banner goes to the log
        import warp as wp

        wp.init()
    count = wp.get_cuda_device_count()
    built, driver = (_number(pair) for pair in (wp.get_cuda_toolkit_version(), wp.get_cuda_driver_version()))
    line = f"{wp.__version__}, CUDA {built}, CUDA of the driver {driver}, GPUs: {count}"
    fields = {"warp-lang": wp.__version__, "cuda_of_warp": built, "cuda_of_driver": driver, "gpus_of_warp": count}
    return line, {"machine": fields}


def _number(pair: tuple[int, int] | None) -> str | None:
    """Return a version from two numbers."""
    return None if pair is None else f"{pair[0]}.{pair[1]}"


def _cuda() -> Any:
    """Return torch.

    Raises:
        RuntimeError: It sees no GPU.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no GPU")
    return torch


def _memory(device: str, tiny: bool) -> Fact:
    if not device.startswith("cuda"):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        return f"{total:.1f} GiB", {"machine": {"device": device, "name": "cpu", "memory_gib": round(total, 1)}}
    torch = _cuda()
    properties, (free, total) = torch.cuda.get_device_properties(device), torch.cuda.mem_get_info(device)
    fields = {
        "device": device,
        "name": properties.name,
        "memory_gib": round(total / 2**30, 1),
        "arch": 10 * properties.major + properties.minor,
        "multiprocessors": properties.multi_processor_count,
    }
    return f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free, {properties.name}", {"machine": fields}


def _bandwidth(device: str, tiny: bool) -> Fact:
    from benchmarks.hardware.bandwidth import copy_rates  # torch only

    if device.startswith("cuda"):
        _cuda()
    rates = copy_rates(device, SMALL if tiny else None)
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    row = {"what": "copy of memory, read + write", "unit": "B/s", "value": median, "low": low, "high": high}
    return f"{median / 1e9:,.1f} GB/s, read + write, by a copy in torch", row


FACTS: dict[str, Callable[[str, bool], Fact]] = {
    "driver": _driver,
    "system": _system,
    "packages": _packages,
    "torch": _torch,
    "Warp": _warp,
    "memory": _memory,
    "bandwidth": _bandwidth,
}
"""Functions of the device and whether the run is tiny, in the order in which their facts are printed."""


def main(argv: list[str]) -> None:
    """Print every fact as a line for a reader and as a row of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.facts", description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args(argv)
    for name, fact in FACTS.items():
        try:
            line, row = fact(args.device, args.tiny)
        except Exception as error:  # noqa: BLE001  # a library of the machine may fail in any way; the rest is known
            line = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            row = {"what": name, "error": line}
        print(f"{name}: {line}\nROW {json.dumps(row)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
