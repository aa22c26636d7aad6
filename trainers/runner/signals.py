"""Signals that end a training, and the running time of the process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

__all__ = ["process_seconds", "signals"]


@contextlib.contextmanager
def signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` for the first SIGINT or SIGTERM within the block; a second signal has its usual effect."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread only
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: FrameType | None) -> None:
        stop(number)
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def process_seconds() -> float:
    """Return the time since the start of this process [s], imports included (Linux, resolution 0.01 s)."""
    began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # clock ticks since boot
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK")
