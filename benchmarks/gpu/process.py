"""Processes of the parts: their lines, their time limits, and what is known of one that hangs or crashes."""

import json
import os
import queue
import resource
import shlex
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from benchmarks.hardware.provenance import ROOT

GRACE = 2.0
"""Time that a process has to end after a signal [s]."""
TAIL = 20
"""Lines of the output of a process that hung or crashed, kept in the result file."""


@dataclass(frozen=True)
class Outcome:
    """How a process ended."""

    status: str  # "done" or a reason in one line
    output: tuple[str, ...] = ()  # its last lines, unless it is done


def run(
    words: list[str], seconds: float, log: Path, on_row: Callable[[dict[str, Any]], None], on_line: Callable[[str], Any]
) -> Outcome:
    """Run a process and its children in a separate process group, and end them all.

    A process over its limit is aborted, so that Python writes the stacks of its threads.

    Args:
        words: Command.
        seconds: Time limit [s]; it may take ``2 * GRACE`` more to end a process that ignores signals.
        log: File for its output, except the rows.
        on_row: Called with each row, which is a line of the form ``ROW {JSON}``.
        on_line: Called with each other line of its standard output.
    """
    end = time.monotonic() + seconds
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    flags = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}  # no line is lost, and a crash names its place
    with log.open("a", encoding="utf-8") as text:
        text.write(f"\n$ {shlex.join(words)}\n")
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=os.environ | flags | {"PYTHONPATH": os.pathsep.join(paths)},
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            output = _Output(process, text, on_row, on_line)
            in_time = output.follow(process, end)
        finally:
            _end(process)
        output.drain()
    if not in_time:
        return Outcome(f"cut after {seconds:.0f} s", tuple(output.tail))
    code = process.wait(GRACE)
    if code == 0:
        return Outcome("done")
    if code < 0:
        return Outcome(f"crashed: {signal.Signals(-code).name}", tuple(output.tail))
    return Outcome(f"failed ({code}): {output.last_error or output.last or 'no output'}"[:300], tuple(output.tail))


def without_core_dumps() -> None:
    """Let no process of the report write its memory to a file when it is aborted."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class _Output:
    """Lines of both streams of a process, passed on and written to a log as they come."""

    def __init__(
        self,
        process: "subprocess.Popen[str]",
        log: TextIO,
        on_row: Callable[[dict[str, Any]], None],
        on_line: Callable[[str], Any],
    ) -> None:
        self.log, self.on_row, self.on_line = log, on_row, on_line
        self.tail: deque[str] = deque(maxlen=TAIL)
        self.last = self.last_error = ""
        self._lines: queue.SimpleQueue[tuple[bool, str | None]] = queue.SimpleQueue()
        self._open = 2
        for stream, error in ((process.stdout, False), (process.stderr, True)):
            threading.Thread(target=self._read, args=(stream, error), daemon=True).start()

    def follow(self, process: "subprocess.Popen[str]", end: float) -> bool:
        """Take lines until the process ends; return whether it did in time."""
        while time.monotonic() < end:
            ended = process.poll() is not None
            if not self._take(0.1) and ended:  # its children may keep the output open
                return True
        return False

    def drain(self) -> None:
        """Take the lines that are left after the process ended."""
        end = time.monotonic() + GRACE
        while self._open and time.monotonic() < end:
            self._take(0.1)

    def _read(self, stream: TextIO, error: bool) -> None:
        for line in stream:
            self._lines.put((error, line.rstrip("\n")))
        self._lines.put((error, None))

    def _take(self, seconds: float) -> bool:
        """Take one line and return whether there was one."""
        try:
            error, line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return False
        if line is None:
            self._open -= 1
            return True
        row = None if error else _row(line)
        if row is not None:
            self.on_row(row)
            return True
        self.log.write(line + "\n")
        self.log.flush()
        if line.strip():
            self.tail.append(line[:300])
            self.last, self.last_error = line, line if error else self.last_error
        if not error:
            self.on_line(line)
        return True


def _row(line: str) -> dict[str, Any] | None:
    """Return the row of a line; None if it is another line, or a row that was cut off."""
    if not line.startswith("ROW "):
        return None
    try:
        return json.loads(line.removeprefix("ROW "))
    except json.JSONDecodeError:
        return None


def _end(process: "subprocess.Popen[str]") -> None:
    """End a process and its process group."""
    for number in (signal.SIGABRT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        end = time.monotonic() + GRACE
        while time.monotonic() < end and _alive(process):
            time.sleep(0.05)


def _alive(process: "subprocess.Popen[str]") -> bool:
    """Return whether a process of the group runs."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True
