"""Result files of the throughput suite, by machine, and the one result that pages show.

A group of figures comes from the run with the most of today's contenders, or of the figures with a target. If several
runs have equally many, the newest is used. So a new measurement of one group, on any machine, replaces only that group.
"""

import datetime
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.hardware import provenance
from benchmarks.hardware.provenance import ROOT
from benchmarks.hardware.result_files import dumps, rounded
from benchmarks.throughput.comparisons import COMPARISONS
from benchmarks.throughput.target import Effort, Figure
from benchmarks.throughput.timing import QUIET

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"


def group(title: str, command: str, effort: Effort, load: float, figures: list[Figure]) -> dict[str, Any]:
    """Return the figures of one group and the conditions of their measurement."""
    return {
        "title": title,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": provenance.commit(),
        "machine": provenance.machine(),
        "command": command,
        "effort": asdict(effort),
        "load_before": round(load, 2),
        "figures": [_entry(figure) for figure in figures],
    }


def _entry(figure: Figure) -> dict[str, Any]:
    """Return the fields of a figure that differ from their defaults."""
    defaults = {field.name: field.default for field in fields(figure)}
    return rounded({name: value for name, value in asdict(figure).items() if value != defaults[name]})


def write(path: Path, machine: dict[str, Any], groups: dict[str, Any]) -> None:
    """Write a result file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps({"machine": machine, "groups": groups}, levels=4))


def recorded(part: str) -> list[dict[str, Any]]:
    """Return the contents of the result files with a part: "groups" or, of a GPU, "parts"."""
    files = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    return [file for file in files if part in file]


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a result file, with groups of other machines that have more contenders or figures."""
    return combined(json.loads(path.read_text()), recorded("groups"))


def published_result(page: Path = PAGE) -> dict[str, Any]:
    """Return the result that the page shows, so that other pages quote the same figures.

    Raises:
        ValueError: The page names no result file.
    """
    match = re.search(r"^<!-- Generated from `(\S+)`", page.read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{page}: expected a comment 'Generated from `FILE`', got none; write the page again")
    return read(ROOT / match[1])


def combined(main: Mapping[str, Any], other_results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a result in which each group is the best one of all machines.

    Contenders are compared only within a run, so that a group comes from one machine as a whole.

    Args:
        main: Contents of the result file of a page; its groups are kept in a tie of figures and dates.
        other_results: Contents of other result files.
    """
    candidates: dict[str, list[dict[str, Any]]] = {}
    for result in (main, *other_results):
        for id, candidate in result["groups"].items():
            candidates.setdefault(id, []).append(candidate)
    return {
        **main,
        "groups": {id: max(entries, key=lambda entry: _rank(id, entry)) for id, entries in candidates.items()},
    }


def _rank(id: str, group: Mapping[str, Any]) -> tuple[int, int, str]:
    """Return a key that orders the runs of a group: contenders, figures with a target, date."""
    is_comparison = any(comparison.id == id for comparison in COMPARISONS)
    targets = 0 if is_comparison else sum(bool(figure.get("target")) for figure in group["figures"])
    return -len(lacking(id, group)), targets, group.get("date", "")


def rows_of(group: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the contenders of a group."""
    return [figure["row"] for figure in group["figures"] if figure.get("row")]


def lacking(id: str, group: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return round and name of each contender that has no figures in a group, in the order of today's comparison."""
    rows = rows_of(group)
    measured = {(row["round"], row["name"]) for row in rows if row["kind"] != "absent"}
    absent = [(row["round"], row["name"]) for row in rows if row["kind"] == "absent"]
    current = [(round_.title, contender.name) for round_ in _rounds(id) for contender in round_.contenders]
    return [key for key in dict.fromkeys((*current, *absent)) if key not in measured]


def unplayed(id: str, group: Mapping[str, Any]) -> list[str]:
    """Return the titles of the rounds of today's comparison that a group has no rows of."""
    played = {row["round"] for row in rows_of(group)}
    return [round_.title for round_ in _rounds(id) if round_.title not in played]


def _rounds(id: str) -> list[Any]:
    return [round_ for comparison in COMPARISONS if comparison.id == id for round_ in comparison.rounds]


def processor(cpu: str) -> str:
    """Return the name of a processor for people: without its family, "(R)" and "Processor"."""
    return re.split(r" \(family| \((?!R\))", cpu)[0].replace("(R)", "").removesuffix(" Processor")


class Pair(NamedTuple):
    """gpu-envs and the fastest other library in one alternating run."""

    label: str
    rate: float
    """Rate of gpu-envs [unit]."""
    unit: str
    other: str
    other_rate: float
    """Rate of the other library [unit]."""
    ratio: float
    """Median of the ratios of adjacent samples."""
    processor: str
    cores: int
    commit: str
    busy: bool
    """Whether other programs used the machine."""


def pair(result: Mapping[str, Any], group_id: str, round_title: str, label: str) -> Pair:
    """Return gpu-envs and the fastest other library of a round."""
    group = result["groups"][group_id]
    contenders = [row for row in rows_of(group) if row["round"] == round_title]
    native = next(row for row in contenders if row["kind"] == "gpu_envs" and row["ratio"] == 1)
    best = max((row for row in contenders if row["kind"] == "peer"), key=lambda row: row["rate"])
    machine = group.get("machine", result["machine"])
    return Pair(
        label,
        native["rate"],
        native["unit"],
        best["name"],
        best["rate"],
        best["ratio"],
        processor(machine["cpu"]),
        machine["cores"],
        group["commit"],
        native["others"] > QUIET,
    )
