"""Results of a report and their files, replaced atomically after each measurement."""

import datetime
import json
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import page
from benchmarks.gpu.plan import PLAN
from benchmarks.gpu.process import Outcome
from benchmarks.hardware.provenance import CHANGED, UNKNOWN, commit
from benchmarks.hardware.result_files import dumps

FAILURES = ("failed", "crashed", "cut", "lacks", "interrupted")
"""First words of the states of a part that failed; others are "running", "done", "left out" and "not installed"."""
BETWEEN = 2.0
"""Least time between two writes while a part runs [s]."""


class GpuReport:
    """Results so far and their files.

    Args:
        out: Folder of the files.
        words: Options of the command line.
        tiny: Whether the run is a trial.
        keep: Whether parts of an earlier result of the machine are kept until they are run again.
    """

    def __init__(self, out: Path, words: Sequence[str], tiny: bool, keep: bool = False) -> None:
        self.out = out
        self.out.mkdir(parents=True, exist_ok=True)
        self.log = out / "log.txt"
        self.log.unlink(missing_ok=True)
        self.keep = keep
        self.earlier_parts: list[str] = []  # names of the parts of an earlier result
        self.named = False
        self.written = 0.0
        self.result: dict[str, Any] = {
            "date": _now(),
            "command": shlex.join(["python", "-m", "benchmarks.gpu", *words]),
            "commit": commit(),
            "tiny": tiny,
            "machine": {},
            "parts": {},
        }

    @property
    def machine(self) -> dict[str, Any]:
        """The facts of the machine."""
        return self.result["machine"]

    @property
    def path(self) -> Path:
        """The result file, named after the device."""
        name = self.machine.get("name", "unknown")
        return self.out / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-') or 'unknown'}.json"

    @property
    def failures(self) -> list[str]:
        """Names of the parts of this run that failed."""
        parts = self.result["parts"].items()
        return [name for name, part in parts if name not in self.earlier_parts and part["status"].startswith(FAILURES)]

    def begin(self, name: str, title: str) -> dict[str, Any]:
        """Add a part, in place of an earlier result, and return its entry."""
        entry = {"title": title, "status": "running", "seconds": 0.0, "date": _now(), "rows": []}
        self.result["parts"][name] = entry
        self.earlier_parts = [other for other in self.earlier_parts if other != name]
        return entry

    def add(self, name: str, row: dict[str, Any]) -> None:
        """Store a row of a part, or facts of the machine."""
        if "machine" in row:
            self.machine.update(row["machine"])
        else:
            self.result["parts"][name]["rows"].append(row)
        self._write_sometimes()

    def replace_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Store all rows of a part."""
        self.result["parts"][name]["rows"] = rows
        self._write_sometimes()

    def end(self, name: str, outcome: Outcome, seconds: float) -> None:
        """Store how a part ended, and write the files."""
        entry = self.result["parts"][name]
        status = outcome.status
        measured = [row for row in entry["rows"] if row.get("mode") != "bytes" and row.get("unit") != "registers"]
        if status == "done" and measured and all("error" in row for row in measured):
            status = "failed: every measurement, see their errors"
        entry |= {"status": status, "seconds": round(seconds, 1)}
        if outcome.output:
            entry["output"] = list(outcome.output)
        if name == "machine" and self.keep:
            self._keep_earlier()
        self.write()

    def _keep_earlier(self) -> None:
        """Take over parts, but not of another commit, of changed files, or with other versions on the machine."""
        if not self.path.exists():
            return
        earlier = json.loads(self.path.read_text("utf-8"))
        same = all(earlier[key] == self.result[key] for key in ("commit", "tiny", "machine"))
        if not same or self.result["commit"] == UNKNOWN or self.result["commit"].endswith(CHANGED):
            return
        parts = earlier["parts"] | self.result["parts"]
        self.result["parts"] = {part.name: parts[part.name] for part in PLAN if part.name in parts}
        self.earlier_parts = [name for name in self.result["parts"] if name != "machine"]

    def _write_sometimes(self) -> None:
        if self.named and time.monotonic() - self.written > BETWEEN:
            self.write()

    def write(self) -> None:
        """Write the result file and its page."""
        self.named, self.written = True, time.monotonic()
        self.result["goals"] = page.goals(self.result)
        texts = {".json": dumps(self.result, levels=4), ".md": page.markdown(self.result)}
        for suffix, text in texts.items():
            unfinished = self.path.with_suffix(f"{suffix}.part")
            unfinished.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
            unfinished.replace(self.path.with_suffix(suffix))


def _now() -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
