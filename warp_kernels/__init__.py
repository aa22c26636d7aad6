"""Rules of every environment as Warp functions, and schedules that turn them into kernels. It imports only Warp.

Importing this package neither compiles kernels nor starts Warp. Kernels compile at their first use and are cached on
disk.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from threading import RLock

import warp as wp

__all__ = [
    "HEADERS_VARIABLE",
    "OPTIMIZATION_VARIABLE",
    "building",
    "cache_errors",
    "missing_gpu",
    "start",
    "unoptimized",
]

# Warp prints a banner when it starts. Print errors only, unless the user set another level before this import.
if wp.config.log_level == wp.LOG_INFO:
    wp.config.log_level = wp.LOG_ERROR

# By default Warp keeps the address of a kernel's tile memory in one variable for all CPU threads of x86-64. Threads
# that run kernels at once could overwrite it (in debug mode they crash). None uses a register or static memory.
if wp.config.enable_tiles_in_stack_memory:
    wp.config.enable_tiles_in_stack_memory = None

# Compile to machine code of the present GPU and cache it. By default Warp may cache PTX, which the driver compiles
# again at every load. Warp still falls back to PTX where it cannot make machine code.
if wp.config.cuda_output is None:
    wp.config.cuda_output = "cubin"

OPTIMIZATION_VARIABLE = "GPU_ENVS_OPTIMIZATION_LEVEL"
"""Name of the environment variable with Warp's optimization level, 0 to 3, for this process and those that it starts.

On a CPU, 0 compiles several times as fast, and the kernels run slower with the same results. On a GPU it compiles more
slowly, and results may differ by rounding."""
HEADERS_VARIABLE = "GPU_ENVS_PRECOMPILED_HEADERS"
"""Name of the environment variable that is 1 to use precompiled headers, else 0, for this process and those that it
starts.

On a CPU, 1 makes the first module of a process compile half a second longer, and each later one 0.7 s faster. The
cache on disk has the modules of both apart."""


def _from_environment(variable: str, values: tuple[str, ...], otherwise: str) -> int | None:
    """Return the value of an environment variable; None if it is not set, or empty."""
    value = os.environ.get(variable) or None
    if value not in (None, *values):
        expected = f"{', '.join(values[:-1])} or {values[-1]}"
        raise ValueError(f"{variable}: expected {expected}, got {value!r}; unset it for {otherwise}")
    return None if value is None else int(value)


_level = _from_environment(OPTIMIZATION_VARIABLE, ("0", "1", "2", "3"), "Warp's own level")
if _level is not None:
    wp.config.optimization_level = _level
# A process that uses one environment mostly needs one module.
wp.config.use_precompiled_headers = bool(_from_environment(HEADERS_VARIABLE, ("0", "1"), "no precompiled headers"))

building = RLock()
"""Lock for importing rules and for building, compiling, loading and recording kernels.

Warp's modules and its cache are not safe for several threads. A step does not take the lock."""
if hasattr(os, "register_at_fork"):  # a fork while another thread builds would otherwise leave the lock taken forever
    os.register_at_fork(before=building.acquire, after_in_parent=building.release, after_in_child=building.release)


@contextlib.contextmanager
def unoptimized() -> Iterator[None]:
    """Compile new kernels without optimization within the block, unless the environment variable sets a level."""
    level = wp.config.optimization_level
    wp.config.optimization_level = 0 if level is None else level
    try:
        yield
    finally:
        wp.config.optimization_level = level


_NO_GPU = "Could not find or load the NVIDIA CUDA driver"


@contextlib.contextmanager
def cache_errors(folder: str | None = None) -> Iterator[None]:
    """Let errors of files in Warp's cache of kernels say which variable chooses its folder."""
    try:
        yield
    except OSError as error:
        reason = f"Warp caches compiled kernels there ({error.strerror}); set WARP_CACHE_PATH to another folder"
        raise OSError(error.errno, reason, error.filename or folder) from error


def start() -> None:
    """Start Warp once, without its banner; problems with a present GPU are printed."""
    with building:
        _start()


@cache
def _start() -> None:
    try:
        stderr = os.dup(2) if wp.config.log_level >= wp.LOG_ERROR else None
    except OSError:  # the standard error is closed
        stderr = None
    with cache_errors():
        if stderr is None:
            wp.init()
        else:
            _start_quietly(stderr)


def _start_quietly(stderr: int) -> None:
    """Start Warp, and print what it writes to the standard error except for a missing driver.

    The native library writes "could not find the CUDA driver" straight to file descriptor 2, at any log level.
    """
    with tempfile.TemporaryFile() as output:
        try:
            os.dup2(output.fileno(), 2)
            wp.init()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            output.seek(0)
            for line in output.read().decode(errors="replace").splitlines():
                if _NO_GPU not in line:
                    print(line, file=sys.stderr)


def missing_gpu() -> str:
    """Return why Warp can use no GPU and what to do about it, in one line; "" if it can use one."""
    start()
    if wp.get_cuda_device_count():
        return ""
    built, driver = wp.get_cuda_toolkit_version(), wp.get_cuda_driver_version()
    if built is None:
        return f"Warp {wp.__version__} is a build without CUDA; install the wheel of warp-lang from PyPI"
    build = f"Warp {wp.__version__} is built with CUDA {built[0]}.{built[1]}"
    newer = "580 or newer" if built[0] == 13 else f"one for CUDA {built[0]} or newer"
    if driver is None:
        return f"{build} and finds no NVIDIA driver; install a driver, {newer}"
    supported = f"the NVIDIA driver supports CUDA {driver[0]}.{driver[1]}"
    if driver >= built:
        return f"{build} and finds no GPU, although {supported}; check CUDA_VISIBLE_DEVICES and nvidia-smi"
    older = (
        f", or a build of Warp for CUDA {driver[0]}: a +cu{driver[0]} wheel of https://github.com/NVIDIA/warp/releases"
    )
    return f"{build}, but {supported} only; install a newer driver ({newer}){older if driver[0] == 12 else ''}"
