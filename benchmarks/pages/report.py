"""Measure the targets and write docs/performance.md.

- `python -m benchmarks.pages.report`: measure all targets, write the result file and the page.
- `... --only simple-tag`: measure these groups again and replace them in the result file.
- `... --take out/bench/bench.json`: replace the groups that `make bench` has measured.
- `... --from benchmarks/results/NAME.json`: write the page from a result file, without a measurement.

A group of another machine is on the page if it has more of the compared libraries, or of the figures with a target. If
several groups have equally many, the page shows the newest.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.hardware import provenance
from benchmarks.hardware.page_files import filled
from benchmarks.hardware.provenance import ROOT
from benchmarks.pages import performance_page, picture, results
from benchmarks.pages.targets import TARGETS as OWN
from benchmarks.throughput import rounds
from benchmarks.throughput.target import BENCH, Effort

TARGETS = (*OWN, *rounds.TARGETS)


def measure(only: list[str], effort: Effort) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure the groups named, or all; gives each with its id as soon as it is there."""
    for target in TARGETS:
        if only and target.id not in only:
            continue
        print(f"{target.id}: {target.title}", flush=True)
        load = os.getloadavg()[0]
        figures = []
        for figure in target.measure(effort):
            figures.append(figure)
            value = performance_page.number(figure.value)
            remark = " ".join(filter(None, (performance_page.verdict(figure), figure.note if figure.value else "")))
            print(f"    {figure.what}: {value} {figure.unit} {remark}", flush=True)
        command = f"python -m benchmarks.pages.report --only {target.id}"
        yield target.id, results.group(target.title, command, effort, load, figures)


def _file_of(machine: dict[str, Any]) -> Path:
    """Return the result file of a machine."""
    name = f"{machine['cpu'].split(',')[0]} {machine['cores']} cores"
    return results.RESULTS / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.json"


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
        if rounds_left := results.unplayed(id, group):
            raise ValueError(f"{path}: {id} lacks {', '.join(rounds_left)}; take `make bench ARGS='-k {id}'`")
    target = _file_of(result["machine"])
    results.write(target, result["machine"], _measured(target) | result["groups"])
    return target


def _measured(path: Path) -> dict[str, Any]:
    """Return the groups of a result file, if it exists, that are still measured."""
    groups = json.loads(path.read_text())["groups"] if path.exists() else {}
    ids = {target.id for target in TARGETS}
    return {id: group for id, group in groups.items() if id in ids}


def write_page(source: Path) -> None:
    """Write the page and its figures from a result file."""
    result, source = results.read(source), source.resolve()
    name = str(source.relative_to(ROOT) if source.is_relative_to(ROOT) else source.name)
    parts = performance_page.parts(result, name, TARGETS, results.recorded("parts"))
    results.PAGE.write_text(filled(results.PAGE, parts))
    folder = results.PAGE.parent
    if pairs := performance_page.pairs(result):
        picture.draw_ratios(pairs, folder / performance_page.SUMMARY_PICTURE)
    for id in (target.id for target in TARGETS if target.id in result["groups"]):
        group = result["groups"][id]
        if curves := performance_page.curves(group):
            picture.draw(curves, group["title"], folder / performance_page.picture_of(id), curves[0].along)
    print(f"wrote {results.PAGE}")


def main(argv: list[str]) -> None:
    """Measure, or read a result file; then write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pages.report", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    source_help = "result file to write the page from; nothing is measured"
    parser.add_argument("--from", dest="source", type=Path, help=source_help)
    parser.add_argument("--take", type=Path, help="result file of `make bench` to take over; nothing is measured")
    ids = [target.id for target in TARGETS]
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", choices=ids, help="measure these groups only")
    args = parser.parse_args(argv)
    target = args.source
    if args.take is not None:
        try:
            target = take(args.take)
        except ValueError as error:
            parser.error(str(error))
    elif target is None:
        machine = provenance.machine()
        target = _file_of(machine)
        groups = _measured(target) if args.only else {}
        for id, group in measure(args.only, Effort()):
            groups[id] = group
            results.write(target, machine, groups)
    write_page(target)


if __name__ == "__main__":
    main(sys.argv[1:])
