"""Rules of every environment as Warp functions, and the schedules that turn them into kernels. Knows Warp only.

Importing this package compiles nothing and starts nothing; kernels compile on first use and are cached on disk.
"""

import os
import sys
import tempfile
from functools import cache
from threading import RLock

import warp as wp

# Warp prints a banner at its start. Keep it to real trouble unless the user chose another level before importing us.
if wp.config.log_level == wp.LOG_INFO:
    wp.config.log_level = wp.LOG_ERROR

# By default Warp keeps the place of a kernel's tile memory in one variable for all CPU threads of x86-64. Ours run at
# once and could lose it to each other (in debug mode they crash). None leaves it to a register, or to static memory.
if wp.config.enable_tiles_in_stack_memory:
    wp.config.enable_tiles_in_stack_memory = None

# A precompiled header costs the first module of a process as much time as it saves each of the later ones, and a
# process that uses an environment mostly needs its one module.
wp.config.use_precompiled_headers = False

# Machine code for the GPU that is there, all compiled at once and kept. By default Warp may leave PTX, which the driver
# compiles once more wherever it is loaded. Where machine code cannot be made Warp falls back to PTX all the same.
if wp.config.cuda_output is None:
    wp.config.cuda_output = "cubin"

building = RLock()
"""Held by the thread that imports rules, or builds, compiles, loads or records kernels.

Warp's modules and its cache are not for several threads at once. Nothing waits for it in a step."""
if hasattr(os, "register_at_fork"):  # else a child of a process whose other thread builds would wait for ever
    os.register_at_fork(before=building.acquire, after_in_parent=building.release, after_in_child=building.release)

_NO_GPU = "Could not find or load the NVIDIA CUDA driver"


def start() -> None:
    """Start Warp, once, without chatter; what goes wrong with a GPU that is there is told."""
    with building:
        _start()


@cache
def _start() -> None:
    if wp.config.log_level < wp.LOG_ERROR:
        wp.init()
        return
    # The native library writes "could not find the CUDA driver" straight to file descriptor 2, at any log level.
    with tempfile.TemporaryFile() as said:
        kept = os.dup(2)
        try:
            os.dup2(said.fileno(), 2)
            wp.init()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            said.seek(0)
            for line in said.read().decode(errors="replace").splitlines():
                if _NO_GPU not in line:
                    print(line, file=sys.stderr)
