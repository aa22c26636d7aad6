"""Run the parts of the report, each in its own process, and store their results.

python -m benchmarks.gpu                         all parts on the GPU, within eight minutes
python -m benchmarks.gpu --only tests goals      some parts
python -m benchmarks.gpu --tiny --device cpu     the same machinery on any machine, in two minutes: no figures

The facts of the machine come first, before a package of this project is imported. A part that fails, crashes, times out
or lacks a package is listed with the reason, and the other parts continue. The result file is replaced atomically after
each part. The exit code is 1 if a part failed. ``python -m benchmarks.gpu.wheels`` lists the wheels for a machine
without network access.
"""

import argparse
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import page, plan, process
from benchmarks.gpu.process import Outcome
from benchmarks.gpu.results import GpuReport
from benchmarks.hardware.provenance import ROOT

TOTAL = 470.0
"""Time limit of all parts, with the ends of their processes [s]; ten more seconds are left for the rest."""
TRIAL = 'make gpu-report ARGS="--tiny --device cpu"'


def report(args: argparse.Namespace) -> GpuReport:
    """Run the parts in order; unused time goes to later parts.

    Args:
        args: Options of the command line.
    """
    start = time.monotonic()
    record = GpuReport(args.out, args.words, args.tiny, keep=bool(args.only))
    parts = [part for part in plan.PLAN if not args.only or part.name in args.only or part.name == "machine"]
    scale = args.seconds / sum(part.seconds for part in plan.PLAN)
    for index, part in enumerate(parts):
        later = scale * sum(other.seconds for other in parts[index + 1 :])
        left = args.seconds - (time.monotonic() - start) - later
        _play(part, min(left, scale * part.seconds) if part.capped else left, args, record)
        if part.name != "machine":
            continue
        if record.earlier_parts:
            print(f"parts of an earlier run in {record.path.name}: {', '.join(record.earlier_parts)}", flush=True)
        if lacking := plan.missing(plan.needed()):
            print(_missing_line(lacking), flush=True)
        record.result["problem"] = _no_gpu(record, args.device)
        if record.result["problem"]:
            break
    record.result["seconds"] = round(time.monotonic() - start, 1)
    record.write()
    return record


def _play(part: plan.ReportSection, seconds: float, args: argparse.Namespace, record: GpuReport) -> None:
    """Run one part and store its results."""
    print(f"{part.name}: {part.title} (at most {max(0.0, seconds):.0f} s)", flush=True)
    started, entry = time.monotonic(), record.begin(part.name, part.title)
    outcome = Outcome("interrupted")
    try:
        reason = plan.obstacle(part, args.device, record.machine.get("arch"))
        seconds -= 2 * process.GRACE  # to end a process that ignores signals
        if reason or seconds < 1.0:
            outcome = Outcome(reason or "left out: no time left")
        else:
            words = plan.command(part.name, args.device, args.tiny, record.machine.get("arch"))
            outcome = _run(part.name, words, seconds, record)
    finally:
        record.end(part.name, outcome, time.monotonic() - started)
    print(f"    {entry['status']}, {entry['seconds']:.0f} s", flush=True)


def _run(name: str, words: list[str], seconds: float, record: GpuReport) -> Outcome:
    """Run the process of a part."""
    tests = PytestOutcomes()

    def read_row(row: dict[str, object]) -> None:
        record.add(name, row)
        if "error" in row and name != "machine":
            print(f"    {page.label(row)}: {row['error']}", flush=True)

    def read_line(line: str) -> None:
        if name == "machine":
            print(f"    {line}", flush=True)
        elif name in ("smoke", "tests", *plan.SANITIZED):
            tests.read(line)
            record.replace_rows(name, tests.rows())

    outcome = process.run(words, seconds, record.log, read_row, read_line)
    if tests.last and outcome.status.startswith("failed"):
        return Outcome(f"failed: {tests.last.strip('= ')}", outcome.output)
    return outcome


class PytestOutcomes:
    """Parser of the outcomes in the output of ``pytest -v``, serial or parallel, complete or not."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.last = ""

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
            self.last = line

    def rows(self) -> list[dict[str, Any]]:
        """Return the count of each outcome and each failed test with its reason."""
        counts: dict[str, int] = {}
        for outcome in self.outcomes.values():
            counts[outcome] = counts.get(outcome, 0) + 1
        rows: list[dict[str, Any]] = [{"what": kind, "unit": "tests", "value": counts[kind]} for kind in sorted(counts)]
        bad = [name for name, outcome in self.outcomes.items() if outcome in ("failed", "error")]
        return rows + [{"what": name, "error": self.reasons.get(name, self.outcomes[name])} for name in bad]


def _missing_line(names: Sequence[str]) -> str:
    """Return all missing packages and what to do about them, in one line."""
    return (
        f"not installed: {', '.join(names)}. Install them, or, for a machine without network access, run "
        f"`{plan.carry_command(names)}` on another one; it prints the command that downloads their wheels."
    )


def _no_gpu(record: GpuReport, device: str) -> str:
    """Return why nothing can run on the GPU and what to do about it, in one line; "" if it can."""
    machine = record.machine
    if not device.startswith("cuda"):
        return ""
    if "torch" not in machine:
        return f"torch does not start ({_error(record, 'torch')}): install a build with CUDA, version 2.8 or newer"
    if not machine["gpus_of_torch"]:
        return (
            f"torch {machine['torch']} (CUDA {machine['cuda']}) sees no GPU: check nvidia-smi, CUDA_VISIBLE_DEVICES "
            f"and that torch is a build with CUDA for this driver; to try the report without a GPU: {TRIAL}"
        )
    if plan.missing(["warp-lang"]):
        return ""  # said by the line of missing packages
    if "gpus_of_warp" not in machine:
        return f"Warp does not start ({_error(record, 'Warp')}): see {record.log}"
    return "" if machine["gpus_of_warp"] else _no_gpu_of_warp(record)


def _error(record: GpuReport, library: str) -> str:
    """Return why a fact is not known."""
    part = record.result["parts"]["machine"]
    return next((row["error"] for row in part["rows"] if row["what"] == library), part["status"])


def _no_gpu_of_warp(record: GpuReport) -> str:
    """Return why Warp sees no GPU, by the words of ``warp_kernels``, which imports nothing but Warp."""
    lines: list[str] = []
    words = [sys.executable, "-c", "import warp_kernels; print(warp_kernels.missing_gpu())"]
    process.run(words, 20.0, record.log, lambda row: None, lines.append)
    machine = record.machine
    return lines[-1] if lines else f"Warp {machine['warp-lang']} sees no GPU, torch sees {machine['gpus_of_torch']}"


def main(argv: list[str]) -> int:
    """Write the report and return 1 if a part failed or there is no GPU, 2 for wrong options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [part.name for part in plan.PLAN]
    parser.add_argument("--device", default="cuda", help='"cuda", "cuda:1" or, with --tiny, "cpu"')
    parser.add_argument("--tiny", action="store_true", help="small and short, to try the report out: no figures")
    parser.add_argument("--seconds", type=float, default=TOTAL, help="for everything together")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "gpu-report", help="folder of the files")
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="PART",
        help=f"these parts only, and results of the others from an earlier run: {' '.join(names)}",
    )
    args = parser.parse_args(argv)
    args.words = argv
    if unknown := [name for name in args.only if name not in names]:
        print(f"--only: expected some of {' '.join(names)}, got {' '.join(unknown)}", file=sys.stderr)
        return 2
    process.without_core_dumps()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the running part as well
    record = report(args)
    if not record.result["problem"]:
        print(page.markdown(record.result))
    print(f"wrote {record.path}, {record.path.with_suffix('.md').name} and {record.log.name}")
    if record.result["problem"] or record.failures:
        print(record.result["problem"] or f"failed: {', '.join(record.failures)}")
        return 1
    return 0
