"""Signals that end long work, and the running time of the process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType


@contextlib.contextmanager
def signals(
    stop: Callable[[int], None],
    numbers: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
) -> Iterator[None]:
    """Call `stop` for the first signal within the block; a second signal has its usual effect.

    A SIGHUP that the process ignores, as after nohup, stays ignored. After another one, the end of a terminal or of a
    connection, output that nobody can read any more goes nowhere, and SIGHUP is ignored unless the program handles it:
    a shell that loses its terminal sends one to its jobs, and the kernel sends another when the shell exits.

    Args:
        stop: Function that is called with the number of the signal.
        numbers: Signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread only
        return
    handlers = {number: signal.getsignal(number) for number in numbers}
    if handlers[signal.SIGHUP] is signal.SIG_IGN:
        del handlers[signal.SIGHUP]

    def handle(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP and handlers[signal.SIGHUP] is signal.SIG_DFL:
            handlers[signal.SIGHUP] = signal.SIG_IGN
        for n, handler in handlers.items():
            signal.signal(n, handler)
        if number == signal.SIGHUP:
            _discard_unread_output()
        stop(number)

    for number in handlers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def interrupts() -> contextlib.AbstractContextManager[None]:
    """Let the first SIGTERM or SIGHUP within a block do what SIGINT does, such as raise KeyboardInterrupt."""

    def interrupt(number: int) -> None:
        if not callable(signal.getsignal(signal.SIGINT)):  # ignored, as in the background of a script
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    return signals(interrupt, (signal.SIGTERM, signal.SIGHUP))


def _discard_unread_output() -> None:
    """Send the standard output and errors nowhere if their terminal, or the program that read them, is gone."""
    for file in (1, 2):
        poll = select.poll()
        poll.register(file, 0)  # reports POLLERR and POLLHUP only
        if poll.poll(0):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, file)
            os.close(nowhere)


def process_seconds() -> float:
    """Return the time since the start of this process [s], imports included (Linux, resolution 0.01 s)."""
    began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # clock ticks since boot
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK")
