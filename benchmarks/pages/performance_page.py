"""docs/performance.md out of nothing but a result file: machine, goals, the table of peers, and every group."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks import standing
from benchmarks.compare import QUIET
from benchmarks.gpu import page as gpu
from benchmarks.standing import number
from benchmarks.targets import NOISE, Figure, Target

HEAD = """\
# Performance

Generated from `{source}` by `python -m benchmarks.report --from {source}`; do not edit.

Random actions are made beforehand; observation, reward, flags and autoreset are included. Subjects alternate within
one run. Figures are medians of the turns, with their quartiles (start-up times: with their range); a ratio is the
median of the ratios of neighbouring turns. A round counts if other processes used at most 5 % of the machine meanwhile;
where there were too few such rounds the least disturbed are kept, the tables say how much the others used, and no
verdict is given: figures of all cores mean nothing on a busy machine. The C step is the same work in scalar C with
OpenMP (`benchmarks/bounds/`), tested to give the same results. [How to measure](guides/benchmark.md).
"""
GOALS = """\
## Targets

A line is the worst case of all that a group promises in the same words; the groups have every one.

| | figure | unit | target | |
|---|---|---|---|---|
"""


NO_GPU: dict[str, Any] = {"machine": {}, "parts": {}}
"""A report of nothing."""


def text(result: dict[str, Any], source: str, targets: Sequence[Target], gpus: Sequence[dict[str, Any]] = ()) -> str:
    """The page as Markdown.

    Args:
        result: What a result file holds.
        source: Its path, as the page names it.
        targets: Groups in their order, with what they promise.
        gpus: What `make gpu-report` has told of GPUs.
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


def _goals(target: Target, group: dict[str, Any]) -> Iterator[str]:
    """A line for all goals of the same words and verdict: the worst of them."""
    goals = {goal.what: (replace(goal, note="not in this result file"), False) for goal in target.promised}
    goals |= {figure.what: (figure, busy) for figure, busy in _with_noise(group) if figure.target}
    alike: dict[tuple[str, ...], list[Figure]] = {}
    for figure, busy in goals.values():
        alike.setdefault((figure.unit, figure.target, verdict(figure, busy)), []).append(figure)
    for (unit, promise, told), figures in alike.items():
        worst = min(figures, key=lambda figure: figure.margin)
        what = worst.what if target.title in worst.what else f"{target.title}: {worst.what}"
        if len(figures) > 1:
            what += f" (and {len(figures) - 1} more)" if worst.value is None else f" (the worst of {len(figures)})"
        yield f"| {what} | {number(worst.value)} | {unit} | {_sign(promise)} | {told} |"


def _goals_of_gpu(report: dict[str, Any]) -> Iterator[str]:
    """A line for every goal of one large GPU."""
    name = report["machine"].get("name", "one GPU, `make gpu-report`")
    for goal in gpu.goals(report):
        told = " · ".join(part for part in (goal["verdict"], goal["note"]) if part)
        cells = (f"{name}: {goal['goal']}", number(goal["value"]), goal["unit"], _sign(goal["target"]), told)
        yield f"| {' | '.join(cells)} |"


def _group(id: str, group: dict[str, Any], machine: dict[str, Any]) -> Iterator[str]:
    """The section of a group."""
    yield from (f"## {group['title']}", "")
    if curves(group):
        yield from (f"![{group['title']}]({picture_of(id)})", "")
    yield from ("| | figure | quartiles | unit | target | |", "|---|---|---|---|---|---|")
    for figure, busy in _with_noise(group):
        spread = "" if figure.low is None else f"{number(figure.low)} – {number(figure.high)}"
        told = " · ".join(part for part in (verdict(figure, busy), _note(figure)) if part)
        cells = (figure.what, number(figure.value), spread, figure.unit, _sign(figure.target), told)
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield f"`{group['command']}`, {group['date']}, commit {group['commit']}, load before: {group['load_before']}."
    yield from (*_versions(group, machine), "")


def _note(figure: Figure) -> str:
    """What is to be told beside the verdict, which has said it where a goal has no figure."""
    return "" if figure.target and figure.value is None else figure.note


def _versions(group: dict[str, Any], machine: dict[str, Any]) -> Iterator[str]:
    """What a group was measured with, where that is not what the page begins with."""
    if "machine" not in group:
        yield "Its versions were not kept."
        return
    other = [f"{name} {value}" for name, value in group["machine"].items() if machine.get(name) != value]
    if other:
        yield f"Measured with {', '.join(other)}."


def _with_noise(group: dict[str, Any]) -> list[tuple[Figure, bool]]:
    """Figures, and whether others used the machine too much meanwhile, as the next figure of the noise says."""
    busy, found = False, []
    for figure in reversed([Figure(**one) for one in group["figures"]]):
        busy = (figure.value or 0.0) > 100 * QUIET if figure.what == NOISE else busy
        found.append((figure, busy))
    return found[::-1]


def curves(group: dict[str, Any]) -> list[Figure]:
    """Figures of a group that lie on the curves of its picture."""
    return [figure for figure in (Figure(**one) for one in group["figures"]) if figure.curve]


def picture_of(id: str) -> str:
    """File name of a group's picture, beside the page."""
    return f"performance_{id.replace('-', '_')}.png"


def verdict(figure: Figure, busy: bool = False) -> str:
    """Whether a goal is met; nothing is met or missed on a machine that others were using."""
    if figure.target and figure.value is None:
        return f"not measured: {figure.note}"
    if figure.met is not None and busy:
        return "not measured: the machine was busy"
    return {None: "", True: "met", False: "**not met**"}[figure.met]


def _sign(target: str) -> str:
    return target.replace(">=", "≥").replace("<=", "≤")
