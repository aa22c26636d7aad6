"""First line of the report: versions of the driver, of torch and of Warp, and what keeps Warp from using the GPU.

python -m benchmarks.gpu.driver
"""

import subprocess
import sys

from benchmarks.hardware.provenance import ROOT

__all__ = ["LIMIT", "driver_version", "print_versions", "versions_line"]

LIMIT = 60.0
"""Time limit of the first line [s]."""


def driver_version() -> str:
    """Return the version of the GPU's driver."""
    words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.split("\n")[0]
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown: {error}"


def versions_line(limit: float = LIMIT) -> str:
    """Return the first line, made in a process of its own, or the reason why it could not be made."""
    words = [sys.executable, "-m", "benchmarks.gpu.driver"]
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"driver: torch and Warp do not start within {limit:.0f} s"
    said = [line for line in (done.stdout if done.returncode == 0 else done.stderr).splitlines() if line.strip()]
    return said[-1] if said else f"driver: {' '.join(words)} failed ({done.returncode})"


def print_versions() -> None:
    """Print the line; import torch and Warp, but none of the other packages that the report needs."""
    import torch
    import warp as wp

    import warp_kernels

    missing = warp_kernels.missing_gpu()
    built, supported = wp.get_cuda_toolkit_version(), wp.get_cuda_driver_version()
    driver = f"driver {driver_version()}" + (f" (CUDA {supported[0]}.{supported[1]})" if supported else "")
    warp = f"Warp {wp.__version__} (CUDA {f'{built[0]}.{built[1]}' if built else None})"
    counts = [torch.cuda.device_count(), wp.get_cuda_device_count()]
    libraries = [f"torch {torch.__version__} (CUDA {torch.version.cuda})", warp]
    found = ", ".join(f"GPUs of {name}: {count}" for name, count in zip(libraries, counts, strict=True))
    print(f"{driver}, {found}{f'; {missing}' if missing else ''}")


if __name__ == "__main__":
    print_versions()
