"""Processes of the GPU report as tests start, time and find them."""

import sys
import time
from pathlib import Path

from benchmarks.gpu import process


def child(code):
    return [sys.executable, "-c", code]


def run(tmp_path, code, seconds=20.0):
    """Run a process and return its outcome, its rows and its lines."""
    rows, lines = [], []
    outcome = process.run(child(code), seconds, tmp_path / "log", rows.append, lines.append)
    return outcome, rows, lines


def alive(pid):
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


class Clock:
    """A clock that is past all limits as soon as a line is in the log: how fast a process starts does not matter."""

    def __init__(self, log, line):
        self.log, self.line, self.sleep = log, line, time.sleep

    def monotonic(self):
        late = self.log.exists() and self.line in self.log.read_text().splitlines()
        return time.monotonic() + (10_000.0 if late else 0.0)


def gone(pid):
    """Wait until a killed process has ended."""
    deadline = time.monotonic() + 50.0  # less than the processes sleep
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)
