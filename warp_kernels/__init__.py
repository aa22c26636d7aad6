"""Rules of every environment as Warp functions, and the schedules that turn them into kernels. Knows Warp only.

Importing this package compiles nothing and starts nothing; kernels compile on first use and are cached on disk.
"""

import os
from functools import cache

import warp as wp

# Warp prints a banner at its start. Keep it to real trouble unless the user chose another level before importing us.
if wp.config.log_level == wp.LOG_INFO:
    wp.config.log_level = wp.LOG_ERROR


@cache
def start() -> None:
    """Start Warp, once, without chatter."""
    if wp.config.log_level < wp.LOG_ERROR:
        wp.init()
        return
    # The native library writes "could not find the CUDA driver" straight to file descriptor 2, at any log level.
    kept, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        wp.init()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(sink)
