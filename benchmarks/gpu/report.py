"""Run the parts of the report, each in its own process, and store their results.

python -m benchmarks.gpu                         all parts on the GPU, within eight minutes
python -m benchmarks.gpu --only tests goals      some parts
python -m benchmarks.gpu --tiny --device cpu     the same machinery on any machine, within a minute: no figures

A part that fails, times out or lacks a library is listed with the reason, and the other parts continue. The result file
is replaced atomically after each row.
"""

import argparse
import datetime
import importlib.util
import json
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu import driver, page
from benchmarks.hardware.provenance import ROOT, commit

TOTAL = 465.0
"""Time limit of all parts, process exits and page included [s]."""
GRACE = 5.0
"""Time that a part has to end after a signal [s]."""


@dataclass(frozen=True)
class ReportSection:
    """One part of the report, run in a process."""

    name: str
    title: str
    seconds: float  # it may take, and what earlier parts have left


PLAN = (
    ReportSection("machine", "the machine and its memory bandwidth", 20),
    ReportSection("kernels", "kernels compiled beforehand", 90),
    ReportSection("tests", "tests marked gpu", 95),
    ReportSection("goals", "SimpleTag by the million, and the many agents of WarpDrive's figure", 50),
    ReportSection("jaxmarl", "peer: JaxMARL's simple_tag", 45),
    ReportSection("sweep", "one world to a million, schedules and layouts, captured and eager", 55),
    ReportSection("many-agents", "TagContinuous from 4 to 100,000 agents", 40),
    ReportSection("training", "training, learning included", 38),
    ReportSection("gymnax", "peer: gymnax's CartPole", 17),
    ReportSection("vmas", "peer: VMAS's simple_tag", 15),
)
PEERS = ("jaxmarl", "gymnax", "vmas")
"""Parts with the name of the library that they need."""


def command(part: str, device: str, tiny: bool, arch: int | None) -> list[str] | str:
    """Return the command of a part, or the reason why it is not run."""
    flags = ["--device", device, *(["--tiny"] if tiny else [])]
    if part in PEERS and importlib.util.find_spec(part) is None:
        return f"not installed: {part}"
    if part == "kernels":
        if device == "cpu":
            return "left out: on a CPU kernels are compiled when they are first used"
        if arch is None:
            return "left out: the GPU's architecture is not known"
        return [sys.executable, "-m", "benchmarks.gpu.kernels", "--arch", str(arch)]
    if part == "tests":
        if importlib.util.find_spec("pytest") is None:
            return "not installed: pytest"
        spread = (
            ["-n", str(min(6, max(1, len(os.sched_getaffinity(0)) // 2)))]
            if importlib.util.find_spec("xdist") and not tiny
            else []
        )
        quiet = ["-v", "--tb=short", "-p", "no:cacheprovider", "-m", "gpu", "--continue-on-collection-errors"]
        return [sys.executable, "-m", "pytest", *files_of_tests(), *quiet, *spread]
    return [sys.executable, "-m", "benchmarks.gpu.parts", part, *flags]


def files_of_tests() -> list[str]:
    """Return the test files with a test marked gpu."""
    there = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in there if re.search(r"\bmark\.gpu\b", path.read_text("utf-8"))]


def lines_of(process: "subprocess.Popen[str]", seconds: float) -> Iterator[str]:
    """Yield the output lines of a process until a time limit.

    Raises:
        TimeoutError: The process printed no line in time.
    """
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    end = time.monotonic() + seconds
    while True:
        try:
            line = lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            return
        yield line


def run(words: list[str], seconds: float, log: Path, on_line: Callable[[str], None]) -> str:
    """Run the process of a part, pass on its lines, and return "done" or a one-line reason."""
    begun = log.stat().st_size if log.exists() else 0
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with log.open("ab") as errors:
        errors.write(f"\n$ {shlex.join(words)}\n".encode())
        errors.flush()
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"},  # cut, it loses no line
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            for line in lines_of(process, seconds):
                on_line(line)
            code = process.wait(GRACE)
        except (TimeoutError, subprocess.TimeoutExpired):
            return f"cut after {seconds:.0f} s"
        finally:
            _end(process)
    if code == 0:
        return "done"
    said = [line for line in log.read_bytes()[begun:].decode(errors="replace").splitlines() if line.strip()]
    return f"failed ({code}): {said[-1][:300] if len(said) > 1 else 'it said nothing'}"


def _end(process: "subprocess.Popen[str]") -> None:
    """Terminate a process and its process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            continue
        time.sleep(0.1)


class Tests:
    """Parser of the outcomes in the output of ``pytest -v``, serial or parallel, complete or not."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.said = ""

    def read(self, line: str) -> None:
        """Parse one line."""
        side_by_side = re.match(r"\[gw\d+\]\s+\[\s*\d+%\]\s+([A-Z]+)\s+(tests/.*\S)", line)
        alone = re.match(r"(tests/.*?)\s+(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b", line)
        summary = re.match(r"(FAILED|ERROR) (tests/.*?)(?: - (.*))?$", line)
        if side_by_side:
            self.outcomes[side_by_side[2]] = side_by_side[1].lower()
        elif alone:
            self.outcomes[alone[1]] = alone[2].lower()
        elif summary:
            self.reasons[summary[2]] = (summary[3] or "")[:300]
            self.outcomes.setdefault(summary[2], summary[1].lower())  # a file that cannot be read has no line before
        if line.strip():
            self.said = line

    def rows(self) -> list[dict[str, Any]]:
        """Yield the count of each outcome and each failed test with its reason."""
        counts: dict[str, int] = {}
        for outcome in self.outcomes.values():
            counts[outcome] = counts.get(outcome, 0) + 1
        rows: list[dict[str, Any]] = [{"what": what, "unit": "tests", "value": counts[what]} for what in sorted(counts)]
        bad = [name for name, outcome in self.outcomes.items() if outcome in ("failed", "error")]
        return rows + [{"what": name, "error": self.reasons.get(name, self.outcomes[name])} for name in bad]


class GpuReport:
    """Results so far and their files."""

    def __init__(self, out: Path, given: argparse.Namespace) -> None:
        self.out = out
        self.out.mkdir(parents=True, exist_ok=True)
        self.name = "unknown"
        self.log = out / "log.txt"
        self.log.unlink(missing_ok=True)
        self.written = 0.0
        now, words = datetime.datetime.now(datetime.UTC), ["python", "-m", "benchmarks.gpu", *given.words]
        self.result: dict[str, Any] = {
            "date": f"{now:%Y-%m-%d %H:%M} UTC",
            "command": shlex.join(words),
            "commit": commit(),
            "tiny": given.tiny,
        }
        self.result |= {"machine": {}, "parts": {}}

    def add(self, part: str, row: dict[str, Any]) -> None:
        """Store a row."""
        if "machine" in row:
            self.result["machine"] = row["machine"]
            self.name = re.sub(r"[^a-z0-9]+", "-", row["machine"]["name"].lower()).strip("-") or "unknown"
        else:
            self.result["parts"][part]["rows"].append(row)
        if time.monotonic() - self.written > 2.0:
            self.write()

    def write(self) -> None:
        """Write the result file and its page atomically."""
        self.written = time.monotonic()
        self.result["goals"] = page.goals(self.result)
        for suffix, text in ((".json", json.dumps(self.result, indent=1)), (".md", page.markdown(self.result))):
            unfinished = self.out / f"{self.name}{suffix}.part"
            unfinished.write_text(text + "\n", encoding="utf-8")
            unfinished.replace(self.out / f"{self.name}{suffix}")


def report(given: argparse.Namespace, versions: str = "") -> GpuReport:
    """Run the parts in order of importance; unused time goes to later parts.

    Args:
        given: Options of the command line.
        versions: First line of the report.
    """
    begun = time.monotonic()
    kept = GpuReport(given.out, given)
    kept.result["versions"] = versions
    plan = [part for part in PLAN if not given.only or part.name in given.only or part.name == "machine"]
    scale = given.seconds / sum(part.seconds for part in PLAN)
    for index, part in enumerate(plan):
        later = scale * sum(other.seconds for other in plan[index + 1 :])
        left = given.seconds - (time.monotonic() - begun) - later
        entry: dict[str, Any] = {"title": part.title, "status": "running", "seconds": 0.0, "rows": []}
        kept.result["parts"][part.name] = entry
        words = command(part.name, given.device, given.tiny, kept.result["machine"].get("arch"))
        print(f"{part.name}: {part.title} (at most {left:.0f} s)", flush=True)
        started = time.monotonic()
        if isinstance(words, str):
            entry["status"] = words
        elif left < 1.0:
            entry["status"] = "left out: no time left"
        else:
            entry["status"] = _play(part.name, words, left, kept)
        entry["seconds"] = round(time.monotonic() - started, 1)
        kept.write()
        print(f"    {entry['status']}, {entry['seconds']:.0f} s", flush=True)
    kept.result["seconds"] = round(time.monotonic() - begun, 1)
    kept.write()
    return kept


def _play(name: str, words: list[str], seconds: float, kept: GpuReport) -> str:
    """Run one part and add its rows to the report."""
    tests = Tests()

    def read_line(line: str) -> None:
        if name == "tests":
            tests.read(line)
            with kept.log.open("a", encoding="utf-8") as log:
                log.write(line + "\n")
        elif line.startswith("ROW "):
            row = json.loads(line.removeprefix("ROW "))
            kept.add(name, row)
            if "error" in row:
                print(f"    {page.label(row)}: {row['error']}", flush=True)

    status = run(words, max(1.0, seconds - GRACE), kept.log, read_line)
    if name == "tests":
        kept.result["parts"][name]["rows"] = tests.rows()
        if status.startswith("failed"):
            status = f"failed: {tests.said.strip('= ')}"
    return status


def main(argv: list[str]) -> int:
    """Write the report and return 1 if the machine part failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help='"cuda", "cuda:1" or, with --tiny, "cpu"')
    parser.add_argument("--tiny", action="store_true", help="small and short, to try the report out: no figures")
    parser.add_argument("--seconds", type=float, default=TOTAL, help="for everything together")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "gpu-report", help="folder of the files")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="PART", choices=[part.name for part in PLAN], help="these parts only"
    )
    given = parser.parse_args(argv)
    given.words = argv
    begun = time.monotonic()
    versions = driver.versions_line()
    print(versions, flush=True)
    given.seconds -= time.monotonic() - begun
    kept = report(given, versions)
    print(page.markdown(kept.result))
    print(f"wrote {kept.out / kept.name}.json and .md, and {kept.log}")
    return 0 if kept.result["machine"] else 1
