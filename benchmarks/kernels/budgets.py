"""Recorded resources of all kernels, which are their budgets."""

import json
import lzma
from collections.abc import Iterator
from typing import Any

from benchmarks.hardware import result_files
from benchmarks.hardware.provenance import ROOT
from benchmarks.kernels.measurement import FIGURES, Record, Usages
from benchmarks.kernels.programs import MANY, ROLLOUT

COMMAND = "make kernels"
RECORD = ROOT / "benchmarks" / "results" / "kernels.json.xz"
"""Record of all kernels, JSON with one line per kernel, packed."""
BUDGETED = ("registers", "stack", "shared")
"""Figures that may not grow."""
SPILLS = ("spill_stores", "spill_loads")
"""Figures that must be 0, except in KNOWN_SPILLS."""
KNOWN_SPILLS = ((MANY, "fused"), (MANY, ROLLOUT), ("GatherTradeBuild-v0", ROLLOUT))
"""Kernels that spill, by environment and schedule: with over 128 agents the phases of a fused kernel are functions, to
which State and IO are copied. A GPU plays so many agents in blocks, unless `schedule="fused"` is given. The random
rollout of GatherTradeBuild-v0 holds a whole step, which does not fit into the registers beside the loop."""


def violations(recorded: Record, measured: Record) -> list[str]:
    """Return one line per spill, per growth beyond the record, and per kernel that is recorded or measured only.

    Args:
        recorded: The budgets.
        measured: Kernels to check. Other environments, networks, schedules and architectures are not compared.
    """
    lines = []
    for name, subject in _subjects(measured).items():
        schedules = _subjects(recorded).get(name, {"kernels": {}})["kernels"]
        for schedule, kernels in subject["kernels"].items():
            may_spill = (name, schedule) in KNOWN_SPILLS
            compiled = {architecture for usage in kernels.values() for architecture in usage}
            budget, actual = (_flat(part, compiled) for part in (schedules.get(schedule, {}), kernels))
            for kernel in {**budget, **actual}:
                problems = _exceeded(actual.get(kernel), budget.get(kernel), may_spill)
                lines += [f"{name}, {schedule}, {kernel}: {problem}" for problem in problems]
    if lines and recorded["versions"] != measured["versions"]:
        lines.append(f"The budgets are those of {recorded['versions']}, the kernels of {measured['versions']}.")
    return lines


def _subjects(record: Record) -> dict[str, Any]:
    """Return the environments and networks of a record."""
    return record["environments"] | record["networks"]


def _flat(kernels: Usages, compiled: set[str]) -> dict[str, dict[str, int]]:
    """Return the figures for some architectures by "kernel, architecture"."""
    return {
        f"{kernel}, {architecture}": dict(zip(FIGURES, figures, strict=True))
        for kernel, architectures in kernels.items()
        for architecture, figures in architectures.items()
        if architecture in compiled
    }


def _exceeded(usage: dict[str, int] | None, budget: dict[str, int] | None, may_spill: bool) -> Iterator[str]:
    """Yield what is wrong with a kernel; spills are budgeted like other figures if it may spill."""
    advice = f"if that is intended, run `{COMMAND}`"
    if usage is None:
        yield f"recorded, but not compiled; {advice}"
        return
    for figure in () if may_spill else SPILLS:
        if usage[figure]:
            yield f"{figure}: expected 0 bytes, got {usage[figure]}; keep fewer values at once, or split the phase"
    if budget is None:
        yield f"not recorded; {advice}"
        return
    for figure in (*BUDGETED, *SPILLS) if may_spill else BUDGETED:
        if usage[figure] > budget[figure]:
            yield f"{figure}: expected at most {budget[figure]}, got {usage[figure]}; {advice}"


def load() -> Record:
    """Return the record in the repository."""
    return json.loads(lzma.decompress(RECORD.read_bytes()))


def save(record: Record) -> None:
    """Write the record in the repository."""
    RECORD.write_bytes(lzma.compress(dumps(record).encode()))


def dumps(record: Record) -> str:
    """Return a record as JSON with one line per kernel."""
    return result_files.dumps(record, levels=5)
