"""Measure the targets and write docs/performance.md.

- `python -m benchmarks.pages.report`: measure all targets, write the result file and the page.
- `... --only simple-tag`: measure these groups again and replace them in the result file.
- `... --take out/bench/bench.json`: replace the groups that `make bench` has measured.
- `... --from benchmarks/results/NAME.json`: write the page from a result file, without a measurement.

A group of another machine is on the page if it has more of the compared libraries, or of the figures with a target. If
several groups have equally many, the page shows the newest.
"""

import argparse
import datetime
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.hardware import provenance
from benchmarks.hardware.provenance import ROOT
from benchmarks.pages import performance_page, picture, sources, summary
from benchmarks.pages.targets import TARGETS as OWN
from benchmarks.throughput import rounds
from benchmarks.throughput.cases import available
from benchmarks.throughput.target import BENCH, QUICK, Effort, Figure

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"
TARGETS = (*OWN, *rounds.TARGETS)


def measure(only: list[str], effort: Effort) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure the groups named, or all; gives each with its id as soon as it is there."""
    for target in TARGETS:
        if (only and target.id not in only) or not available(target.needs):
            continue
        print(f"{target.id}: {target.title}", flush=True)
        load = os.getloadavg()[0]
        figures = []
        for figure in target.measure(effort):
            figures.append(figure)
            value = performance_page.number(figure.value)
            remark = " ".join(filter(None, (performance_page.verdict(figure), figure.note if figure.value else "")))
            print(f"    {figure.what}: {value} {figure.unit} {remark}", flush=True)
        yield (
            target.id,
            group(target.title, f"python -m benchmarks.pages.report --only {target.id}", effort, load, figures),
        )


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
        "figures": [asdict(figure) for figure in figures],
    }


def write(path: Path, machine: dict[str, Any], groups: dict[str, Any]) -> None:
    """Write a result file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "groups": groups}, indent=1, ensure_ascii=False) + "\n")


def _recorded(part: str) -> list[dict[str, Any]]:
    """Return the files in the folder of the result files with a part: "groups" or, of a GPU, "parts"."""
    files = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    return [file for file in files if part in file]


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a result file, with groups of other machines that have more contenders or figures."""
    promised = {target.id: [figure.what for figure in target.promised] for target in OWN}
    return sources.combined(json.loads(path.read_text()), _recorded("groups"), promised)


def published_result(page: Path = PAGE) -> dict[str, Any]:
    """Return the result that the page shows, so that other pages quote the same figures.

    Raises:
        ValueError: The page names no result file.
    """
    match = re.search(r"^<!-- Generated from `(\S+)`", page.read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{page}: expected a comment 'Generated from `FILE`', got none; write the page again")
    return read(ROOT / match[1])


def _file_name(machine: dict[str, Any]) -> str:
    name = f"{machine['cpu'].split(',')[0]} {machine['cores']} cores"
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def take(path: Path) -> Path:
    """Copy the groups of a result file of `make bench` into its machine's result file, and return that file.

    Groups that are no longer measured are left out.

    Raises:
        ValueError: A group was not measured by `make bench`, or in part, or its commit is unknown.
    """
    result = json.loads(path.read_text())
    for id, group in result["groups"].items():
        if group["effort"] != asdict(BENCH):
            raise ValueError(f"{path}: {id} is of `{group['command']}`, in shorter or fewer turns; take `make bench`")
        if group["commit"] == provenance.UNKNOWN or group["commit"].endswith(provenance.CHANGED):
            raise ValueError(f"{path}: {id} is of commit {group['commit']}; commit first, then measure")
        if rounds_left := sources.unplayed(id, group):
            raise ValueError(f"{path}: {id} lacks {', '.join(rounds_left)}; take `make bench ARGS='-k {id}'`")
    target = RESULTS / f"{_file_name(result['machine'])}.json"
    write(target, result["machine"], _measured(target) | result["groups"])
    return target


def _measured(path: Path) -> dict[str, Any]:
    """Return the groups of a result file, if it exists, that are still measured."""
    groups = json.loads(path.read_text())["groups"] if path.exists() else {}
    ids = {target.id for target in TARGETS}
    return {id: group for id, group in groups.items() if id in ids}


def main(argv: list[str]) -> None:
    """Measure, or read a result file; then write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pages.report", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--from", dest="source", type=Path, help="result file to write the page from; nothing is measured"
    )
    parser.add_argument(
        "--take", type=Path, help="result file of `make bench` whose groups to take over; nothing is measured"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="ID",
        choices=[target.id for target in TARGETS],
        help="measure these groups only",
    )
    parser.add_argument(
        "--quick", action="store_true", help="short turns: to try the suite, not for figures; writes under out/"
    )
    args = parser.parse_args(argv)
    target = args.source
    if args.take is not None:
        try:
            target = take(args.take)
        except ValueError as error:
            parser.error(str(error))
    elif target is None:
        machine = provenance.machine()
        target = (ROOT / "out" / "bench-quick" if args.quick else RESULTS) / f"{_file_name(machine)}.json"
        groups = _measured(target) if args.only else {}
        for id, group in measure(args.only, QUICK if args.quick else Effort()):
            groups[id] = group
            write(target, machine, groups)
    written = target.with_suffix(".md") if args.quick else PAGE
    written.parent.mkdir(parents=True, exist_ok=True)
    source = target.resolve()
    result = json.loads(target.read_text()) if args.quick else read(target)
    source_name = str(source.relative_to(ROOT) if source.is_relative_to(ROOT) else source.name)
    written.write_text(performance_page.text(result, source_name, TARGETS, _recorded("parts")))
    if pairs := summary.pairs(result):
        picture.draw_ratios(pairs, written.parent / performance_page.SUMMARY_PICTURE)
    for id, group in result["groups"].items():
        if curves := performance_page.curves(group):
            picture.draw(curves, group["title"], written.parent / performance_page.picture_of(id), curves[0].along)
    print(f"wrote {written}")


if __name__ == "__main__":
    main(sys.argv[1:])
