"""Measure the targets and write docs/performance.md: ``python -m benchmarks.report``.

python -m benchmarks.report                                       measure all, write result file and page
python -m benchmarks.report --only simple-tag                     renew these groups in the result file of this machine
python -m benchmarks.report --take out/bench/bench.json           renew the groups that `make bench` has measured
python -m benchmarks.report --from benchmarks/results/NAME.json   write the page again, measuring nothing
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import heats, picture, standing
from benchmarks.bounds.build import FLAGS, compiler_version
from benchmarks.cases import Case, available
from benchmarks.compare import QUIET
from benchmarks.standing import number
from benchmarks.targets import NOISE, QUICK, Effort, Figure
from benchmarks.targets import TARGETS as OWN

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"
TARGETS = (*OWN, *heats.TARGETS)

HEAD = """\
# Performance

Generated from `{source}` by `python -m benchmarks.report --from {source}`; do not edit.

Random actions are made beforehand; observation, reward, flags and autoreset are included. Subjects alternate within
one run. Figures are medians of the turns, with their quartiles (start-up times: with their range); a ratio is the
median of the ratios of neighbouring turns. A round counts if other processes used at most 5 % of the machine meanwhile;
where there were too few such rounds the least disturbed are kept, the tables say how much the others used, and no
verdict is given: figures with two threads mean nothing on a busy machine. The C step is the same work in scalar C with
OpenMP (`benchmarks/bounds/`), tested to give the same results. [How to measure](guides/benchmark.md).
"""


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    packages = ("torch", "warp-lang", "numpy", "gymnasium", "pettingzoo")
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
        "gcc": f"{compiler_version()} {' '.join(FLAGS)}",
    }


def _cpu_model() -> str:
    seen: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        seen.setdefault(name.strip(), value.strip())
    features = [name for name in ("avx2", "avx512f") if name in seen.get("flags", "").split()]
    family = f"family {seen.get('cpu family', '?')} model {seen.get('model', '?')}"
    return f"{seen.get('model name', platform.processor())} ({family}, {', '.join(features)})"


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", "warp_kernels", "gpu_envs", "benchmarks/*.py", "benchmarks/bounds")
    return git("rev-parse", "--short=12", "HEAD") + (" and uncommitted changes" if changed else "")


def measure(only: list[str], effort: Effort) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure the groups named, or all; gives each with its id as soon as it is there."""
    for target in TARGETS:
        if (only and target.id not in only) or not available(Case(target.needs, 1)):
            continue
        print(f"{target.id}: {target.title}", flush=True)
        load = os.getloadavg()[0]
        figures = []
        for figure in target.measure(effort):
            figures.append(figure)
            print(f"    {figure.what}: {number(figure.value)} {figure.unit} {_verdict(figure, False)}", flush=True)
        if _busy(figures):
            print("    the machine was busy: nothing of this counts", flush=True)
        yield target.id, group(target.title, f"python -m benchmarks.report --only {target.id}", effort, load, figures)


def group(title: str, command: str, effort: Effort, load: float, figures: list[Figure]) -> dict[str, Any]:
    """Figures of one group, with what they were measured by."""
    return {
        "title": title,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "command": command,
        "effort": asdict(effort),
        "load_before": round(load, 2),
        "figures": [asdict(figure) for figure in figures],
    }


def page(result: dict[str, Any], source: str) -> str:
    """The report as Markdown, out of nothing but a result file."""
    lines = [*HEAD.format(source=source).splitlines(), "", "| machine | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in result["machine"].items()]
    lines += ["", "## Targets", "", "| | figure | unit | target | |", "|---|---|---|---|---|"]
    groups = _in_order(result["groups"])
    for _, group in groups:
        figures = [Figure(**one) for one in group["figures"]]
        for figure in (figure for figure in figures if figure.target):
            what = figure.what if group["title"] in figure.what else f"{group['title']}: {figure.what}"
            cells = (what, number(figure.value), figure.unit, _sign(figure.target), _verdict(figure, _busy(figures)))
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *standing.section(result)]
    for id, group in groups:
        lines += [f"## {group['title']}", ""]
        if _curves(group):
            lines += [f"![{group['title']}]({_picture(id)})", ""]
        lines += ["| | figure | quartiles | unit | target | |", "|---|---|---|---|---|---|"]
        figures = [Figure(**one) for one in group["figures"]]
        for figure in figures:
            spread = "" if figure.low is None else f"{number(figure.low)} – {number(figure.high)}"
            verdict = " · ".join(part for part in (_verdict(figure, _busy(figures)), figure.note) if part)
            target = _sign(figure.target)
            lines.append(
                f"| {figure.what} | {number(figure.value)} | {spread} | {figure.unit} | {target} | {verdict} |"
            )
        lines += [
            "",
            f"`{group['command']}`, {group['date']}, commit {group['commit']}, load before: {group['load_before']}.",
            "",
        ]
    return "\n".join(lines)


def _curves(group: dict[str, Any]) -> list[Figure]:
    """Figures of a group that lie on the curves of its picture."""
    return [figure for figure in (Figure(**one) for one in group["figures"]) if figure.curve]


def _picture(id: str) -> str:
    """File name of a group's picture, beside the page."""
    return f"performance_{id.replace('-', '_')}.png"


def _in_order(groups: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Groups as TARGETS lists them."""
    order = [target.id for target in TARGETS]
    return sorted(groups.items(), key=lambda one: order.index(one[0]) if one[0] in order else len(order))


def _sign(target: str) -> str:
    return target.replace(">=", "≥").replace("<=", "≤")


def _verdict(figure: Figure, busy: bool) -> str:
    """Nothing is met or missed on a machine that others were using."""
    if figure.met is not None and busy:
        return "not measured: the machine was busy"
    return {None: "", True: "met", False: "**not met**"}[figure.met]


def _busy(figures: list[Figure]) -> bool:
    return any(figure.what == NOISE and (figure.value or 0.0) > 100 * QUIET for figure in figures)


def write(path: Path, machine: dict[str, Any], groups: dict[str, Any]) -> None:
    """Write a result file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "groups": groups}, indent=1, ensure_ascii=False) + "\n")


def _file_name(machine: dict[str, Any]) -> str:
    name = f"{machine['cpu'].split(',')[0]} {machine['cores']} cores"
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def main(argv: list[str]) -> None:
    """Measure, or read a result file; then write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
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
    given = parser.parse_args(argv)
    target = given.source
    if given.take is not None:
        taken = json.loads(given.take.read_text())
        target = RESULTS / f"{_file_name(taken['machine'])}.json"
        kept = json.loads(target.read_text())["groups"] if target.exists() else {}
        write(target, taken["machine"], kept | taken["groups"])
    elif target is None:
        here = machine()
        target = (ROOT / "out" / "bench" if given.quick else RESULTS) / f"{_file_name(here)}.json"
        groups = json.loads(target.read_text())["groups"] if given.only and target.exists() else {}
        for id, group in measure(given.only, QUICK if given.quick else Effort()):
            groups[id] = group
            write(target, here, groups)
    written = target.with_suffix(".md") if given.quick else PAGE
    written.parent.mkdir(parents=True, exist_ok=True)
    source = target.resolve()
    result = json.loads(target.read_text())
    written.write_text(page(result, str(source.relative_to(ROOT) if source.is_relative_to(ROOT) else source.name)))
    for id, group in result["groups"].items():
        if curves := _curves(group):
            picture.draw(curves, group["title"], written.parent / _picture(id), curves[0].along)
    print(f"wrote {written}")


if __name__ == "__main__":
    main(sys.argv[1:])
