"""Writer of docs/performance.md from a result file: machine, targets, comparison and all groups."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.gpu import page as gpu
from benchmarks.pages import standing
from benchmarks.pages.standing import number
from benchmarks.throughput.target import NOISE, Figure, PerformanceTarget
from benchmarks.throughput.timing import QUIET

HEAD = """\
# Performance

Generated from `{source}` by `python -m benchmarks.pages.report --from {source}`; do not edit.

Random actions are sampled beforehand. Observations, rewards, flags and autoreset are included. Contenders alternate
within one run. Figures are medians with quartiles (start-up times: with their range). A ratio is the median of the
ratios of adjacent samples. A sample counts if other processes used at most 5 % of the machine. If there are too few
such samples, the least disturbed are used, the tables list the use by other processes, and targets are not judged.
The C step is the same work in scalar C with OpenMP (`benchmarks/hardware/bounds/`), tested to give the same results.
[Benchmarks](guides/benchmark.md) has the commands. [Kernels](kernels.md) has the resources of the GPU kernels.
"""
GOALS = """\
## Targets

Each row is the worst case of equal targets of a group; the sections list all of them.

| | figure | unit | target | |
|---|---|---|---|---|
"""


NO_GPU: dict[str, Any] = {"machine": {}, "parts": {}}
"""An empty GPU report."""


def text(
    result: dict[str, Any], source: str, targets: Sequence[PerformanceTarget], gpus: Sequence[dict[str, Any]] = ()
) -> str:
    """Return the page as Markdown.

    Args:
        result: Contents of a result file.
        source: Path of the result file, as shown on the page.
        targets: Groups in the order of the page, with their targets.
        gpus: Reports of `make gpu-report`.
    """
    lines = [*HEAD.format(source=source).splitlines(), "", "| machine | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in result["machine"].items()]
    lines += ["", *GOALS.splitlines()]
    for target in targets:
        lines += _goals(target, result["groups"].get(target.id, {"figures": []}))
    for report in gpus or (NO_GPU,):
        lines += _goals_of_gpu(report)
    lines += ["", *standing.section(result)]
    for target in targets:
        if group := result["groups"].get(target.id):
            lines += _group(target.id, group, result["machine"])
    return "\n".join(lines)


def _goals(target: PerformanceTarget, group: dict[str, Any]) -> Iterator[str]:
    """Yield one row per set of equal targets and verdicts: the worst of them."""
    goals = {goal.what: (replace(goal, note="not in this result file"), False) for goal in target.promised}
    goals |= {figure.what: (figure, busy) for figure, busy in _with_noise(group) if figure.target}
    alike: dict[tuple[str, ...], list[Figure]] = {}
    for figure, busy in goals.values():
        alike.setdefault((figure.unit, figure.target, verdict(figure, busy)), []).append(figure)
    for (unit, limit, judged), figures in alike.items():
        worst = min(figures, key=lambda figure: figure.margin)
        what = worst.what if target.title in worst.what else f"{target.title}: {worst.what}"
        if len(figures) > 1:
            what += f" (and {len(figures) - 1} more)" if worst.value is None else f" (the worst of {len(figures)})"
        yield f"| {what} | {number(worst.value)} | {unit} | {_sign(limit)} | {judged} |"


def _goals_of_gpu(report: dict[str, Any]) -> Iterator[str]:
    """Yield one row per target of a GPU report."""
    name = report["machine"].get("name", "one GPU, `make gpu-report`")
    for goal in gpu.goals(report):
        remark = " · ".join(part for part in (goal["verdict"], goal["note"]) if part)
        cells = (f"{name}: {goal['goal']}", number(goal["value"]), goal["unit"], _sign(goal["target"]), remark)
        yield f"| {' | '.join(cells)} |"


def _group(id: str, group: dict[str, Any], machine: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a section."""
    yield from (f"## {group['title']}", "")
    if curves(group):
        yield from (f"![{group['title']}]({picture_of(id)})", "")
    yield from ("| | figure | quartiles | unit | target | |", "|---|---|---|---|---|---|")
    for figure, busy in _with_noise(group):
        spread = "" if figure.low is None else f"{number(figure.low)} – {number(figure.high)}"
        remark = " · ".join(part for part in (verdict(figure, busy), _note(figure)) if part)
        cells = (figure.what, number(figure.value), spread, figure.unit, _sign(figure.target), remark)
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield f"`{group['command']}`, {group['date']}, commit {group['commit']}, load before: {group['load_before']}."
    yield from (*_versions(group, machine), "")


def _note(figure: Figure) -> str:
    """Return the note of a figure; the verdict contains it if a target has no figure."""
    return "" if figure.target and figure.value is None else figure.note


def _versions(group: dict[str, Any], machine: dict[str, Any]) -> Iterator[str]:
    """Yield the versions of a group that differ from those at the top of the page."""
    if "machine" not in group:
        yield "Its versions were not recorded."
        return
    other = [f"{name} {value}" for name, value in group["machine"].items() if machine.get(name) != value]
    if other:
        yield f"Measured with {', '.join(other)}."


def _with_noise(group: dict[str, Any]) -> list[tuple[Figure, bool]]:
    """Return figures with whether the machine was busy, from the next noise figure."""
    busy, found = False, []
    for figure in reversed([Figure(**one) for one in group["figures"]]):
        busy = (figure.value or 0.0) > 100 * QUIET if figure.what == NOISE else busy
        found.append((figure, busy))
    return found[::-1]


def curves(group: dict[str, Any]) -> list[Figure]:
    """Return the figures of a group that are plotted."""
    return [figure for figure in (Figure(**one) for one in group["figures"]) if figure.curve]


def picture_of(id: str) -> str:
    """Return the file name of the plot of a group."""
    return f"performance_{id.replace('-', '_')}.png"


def verdict(figure: Figure, busy: bool = False) -> str:
    """Return whether a target is met; a target is not judged on a busy machine."""
    if figure.target and figure.value is None:
        return f"not measured: {figure.note}"
    if figure.met is not None and busy:
        return "not measured: the machine was busy"
    return {None: "", True: "met", False: "**not met**"}[figure.met]


def _sign(target: str) -> str:
    return target.replace(">=", "≥").replace("<=", "≤")
