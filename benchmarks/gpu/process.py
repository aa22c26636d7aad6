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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """Run a process and its children in a process group of their own, and end all of them.

    A process over its limit is aborted, so that Python writes the stacks of its threads.

    Args:
        words: Command.
        seconds: Time limit [s]; it may take ``2 * GRACE`` more to end a process that ignores signals.
        log: File for its output, except the rows.
        on_row: Called with each row, which is a line of the form ``ROW {JSON}``.
        on_line: Called with each other line of its standard output.
    """
    end = time.monotonic() + seconds
    begun = log.stat().st_size if log.exists() else 0
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    flags = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}  # no line is lost, and a crash names its place
    with log.open("a", encoding="utf-8") as text:
        text.write(f"\n$ {shlex.join(words)}\n")
        text.flush()
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=os.environ | flags | {"PYTHONPATH": os.pathsep.join(paths)},
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=text,
            start_new_session=True,
        )
        try:
            for line in _lines(process, end):
                row = _row(line)
                if row is not None:
                    on_row(row)
                    continue
                text.write(line + "\n")
                text.flush()
                on_line(line)
            code = process.wait(max(0.1, end - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            _end(process)
            return Outcome(f"cut after {seconds:.0f} s", _tail(log, begun))
        finally:
            _end(process)
    if code == 0:
        return Outcome("done")
    said = _tail(log, begun)
    if code < 0:
        return Outcome(f"crashed: {signal.Signals(-code).name}", said)
    return Outcome(f"failed ({code}): {said[-1][:300] if said else 'no output'}", said)


def without_core_dumps() -> None:
    """Let no process of the report write its memory to a file when it is aborted."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _row(line: str) -> dict[str, Any] | None:
    """Return the row of a line; None if it is another line, or a row that was cut off."""
    if not line.startswith("ROW "):
        return None
    try:
        return json.loads(line.removeprefix("ROW "))
    except json.JSONDecodeError:
        return None


def _lines(process: "subprocess.Popen[str]", end: float) -> Iterator[str]:
    """Yield the lines of the standard output until it is closed, or the process has ended and no line follows.

    Raises:
        TimeoutError: Neither happened in time.
    """
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while (left := end - time.monotonic()) > 0:
        ended = process.poll() is not None  # its children may keep the output open
        try:
            line = lines.get(timeout=min(left, GRACE))
        except queue.Empty:
            if ended:
                return
            continue
        if line is None:
            return
        yield line
    raise TimeoutError


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


def _tail(log: Path, begun: int) -> tuple[str, ...]:
    """Return the last lines of the log that were written after the command."""
    with log.open("rb") as file:
        file.seek(begun)
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return tuple(line[:300] for line in lines[1:][-TAIL:])
