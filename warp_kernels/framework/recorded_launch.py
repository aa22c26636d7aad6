"""Launches that run many times with the same arguments."""

import ctypes
import errno
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any

import warp as wp

from warp_kernels import cache_errors

KNOWN_WARP = "1.19."
"""Versions of Warp whose compiled functions are called as :class:`CPULaunch` does: with bounds and packed arguments."""
NOTICE_AFTER = 10.0
"""Time after which a compilation is reported [s]."""
MIN_FREE_BYTES = 64 * 2**20
"""Free space on the disk of Warp's cache without which nothing is compiled; precompiled headers take the most."""
_loaded: set[tuple[str, str]] = set()  # module and device


@contextmanager
def compilation_notice(name: str, after: float = NOTICE_AFTER) -> Iterator[None]:
    """Say on standard error how long kernels have been compiling, once it takes long.

    In a terminal it is said again whenever that time has doubled; elsewhere it is one line.

    Args:
        name: Name of the kernels.
        after: Time of the first notice [s].
    """
    finished, began = Event(), time.monotonic()

    def report() -> None:
        delay = after
        while not finished.wait(began + delay - time.monotonic()):
            output = sys.stderr
            if output is None:
                return
            print(f"compiling {name}: {delay:.0f} s so far; later starts read it from the cache", file=output)
            if not output.isatty():
                return
            delay *= 2

    thread = Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


@contextmanager
def loading(kernel: Any, device: Any, block_dim: int | None = None) -> Iterator[None]:
    """Check, before the first launch of a kernel in the block, that it can be compiled, and say if that takes long.

    Raises:
        OSError: Warp's cache cannot be written or its disk is full. LLVM would end the process.
    """
    key = (kernel.module.name, str(device))
    if key in _loaded:
        yield
        return
    with compilation_notice(kernel.module.name), cache_errors(wp.config.kernel_cache_dir):
        _check_cache(kernel.module, device, block_dim)
        yield
    _loaded.add(key)


def _check_cache(module: Any, device: Any, block_dim: int | None) -> None:
    """Raise OSError if a module is not in Warp's cache, and the disk has no space for it."""
    folder = wp.config.kernel_cache_dir
    free = shutil.disk_usage(folder).free
    if free >= MIN_FREE_BYTES:
        return
    name = module.get_module_identifier(1 if wp.get_device(device).is_cpu else block_dim)
    if not Path(folder, name).exists():
        reason = f"{free / 2**20:.0f} MiB are free, and compiling needs {MIN_FREE_BYTES / 2**20:.0f} MiB"
        raise OSError(errno.ENOSPC, reason, folder)


class CPULaunch:
    """A recorded launch on a CPU that packs its arguments once.

    ``wp.Launch.launch`` packs them in every run, which takes 2 to 5 µs. Meanwhile it holds the lock of the Python
    interpreter, for which the other threads that share a step wait.

    Args:
        command: Launch of one thread per block that ``wp.launch(record_cmd=True)`` has recorded on a CPU. It keeps
            the compiled module and the memory of the arguments.
    """

    def __init__(self, command: Any) -> None:
        self._command = command
        bounds, *arguments = command.params
        self._arguments = _struct(tuple(map(type, arguments)))(*arguments)
        self._bounds, self._packed = ctypes.byref(bounds), ctypes.byref(self._arguments)
        self._function = command.hooks.forward

    def launch(self) -> None:
        """Run the kernel."""
        self._function(self._bounds, self._packed)

    def set_param_at_index(self, index: int, value: Any) -> None:
        """Set an argument of the next runs."""
        self._command.set_param_at_index(index, value)
        setattr(self._arguments, f"argument_{index}", self._command.params[1 + index])


@cache
def _struct(types: tuple[type, ...]) -> type[ctypes.Structure]:
    """Return the struct that a compiled kernel takes its arguments in."""
    fields = [(f"argument_{index}", dtype) for index, dtype in enumerate(types)]
    return type("Arguments", (ctypes.Structure,), {"_fields_": fields})


def record_launch(
    kernel: Any, dim: int | Sequence[int], inputs: Sequence[Any], device: Any, block_dim: int | None = None
) -> Any:
    """Record a launch, and compile its module. Run it with ``launch()``, on a GPU with ``launch(stream)``.

    Args:
        kernel: Warp kernel.
        dim: Number of threads by dimension.
        inputs: Arguments of the kernel. Their memory must stay in place.
        device: Warp device.
        block_dim: Threads per block; None for Warp's default.

    Returns:
        A :class:`CPULaunch`; on other devices, or with a version of Warp that may call compiled functions in another
        way, the ``wp.Launch``.
    """
    more = {} if block_dim is None else {"block_dim": block_dim}
    with loading(kernel, device, block_dim):
        command: Any = wp.launch(kernel, dim, inputs=inputs, device=device, record_cmd=True, **more)
    if not isinstance(command, wp.Launch) or not command.device.is_cpu or command.block_dim > 1:
        return command
    return CPULaunch(command) if wp.config.version.startswith(KNOWN_WARP) else command
