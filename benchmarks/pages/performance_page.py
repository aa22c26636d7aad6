"""Writer of docs/performance.md from a result file: machine, targets, comparison and all groups."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.gpu import page as gpu
from benchmarks.pages import standing, summary
from benchmarks.pages.standing import number
from benchmarks.throughput.target import NOISE, Figure, PerformanceTarget
from benchmarks.throughput.timing import QUIET

HEAD = """\
# Performance

<!-- Generated from `{source}` by `python -m benchmarks.pages.report --from {source}`; do not edit. -->

How many steps per second gpu-envs simulates and trains, compared with other libraries on the same CPU cores.
**No GPU has been measured yet.**
"""
READING = """\
## How to read the figures

- Contenders take turns within one run on the same machine. Figures are medians, and ratios those of adjacent turns.
- Random actions are sampled beforehand. Observations, rewards, flags and the start of new episodes are included.
- `core.step` overwrites its results in the next step, as in the trainers, unless a row says clones, the default of
  `make`. Copying can take longer than the step: [figures](#reused-results-compared-with-clones).
- The fastest other library is the fastest one that was installed and does the same work, observations included.
- A row names its processor if it is not that of this page. Ratios of different rows are not comparable with each other.
- The figures hold for these environments and for a few CPU cores. They say nothing about GPUs, and nothing about
  rewards: [Learning results](learning.md) shows what trainings reach.

[Benchmarks](guides/benchmark.md) has the method and the commands. [Kernels](kernels.md) has the resources of the GPU
kernels. [Which one for me?](which_library.md) shows the lowest and the highest ratio to each library.
"""
DETAILS = """\
## Details

Each section is one run with its date, commit and command. A click on a line shows its table. Quartiles stand beside
medians; for start-up times it is the range. A sample counts if other processes used at most 5 % of the machine. If
there are too few such samples, the least disturbed are used, the tables list the use by other processes, and targets
are not judged. The C step is the same work in scalar C with OpenMP (`benchmarks/hardware/bounds/`), tested to give the
same results.
"""
GOALS_HEAD = "| | figure | unit | target | |\n|---|---|---|---|---|"
SUMMARY_PICTURE = "performance_summary.png"


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
    lines = HEAD.format(source=source).splitlines()
    if rows := summary.table(result):
        lines += ["", f"![{summary.alt_text(result)}]({SUMMARY_PICTURE})", "", "## Summary", "", *rows]
    lines += ["", *READING.splitlines()]
    goals = [row for target in targets for row in _goals(target, result["groups"].get(target.id, {"figures": []}))]
    goals += [row for report in gpus or (NO_GPU,) for row in _goals_of_gpu(report)]
    lines += ["", *_targets(goals), "", *standing.section(result), *DETAILS.splitlines()]
    machine = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in result["machine"].items())]
    lines += ["", *folded("Machine and versions", machine)]
    for target in targets:
        if group := result["groups"].get(target.id):
            lines += _group(target.id, group, result["machine"])
    return "\n".join(lines)


def folded(title: str, lines: Iterable[str]) -> list[str]:
    """Return lines of Markdown below a line that shows them on a click."""
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>", ""]


def _targets(goals: Sequence[str]) -> Iterator[str]:
    """Yield the section of targets: counts, the missed ones, and all of them folded."""
    verdicts = [row.rsplit("|", 2)[1].strip() for row in goals]
    missed = [row for row, verdict in zip(goals, verdicts, strict=True) if verdict.startswith("**")]
    met = sum(verdict.startswith("met") for verdict in verdicts)
    yield from ("## Targets", "")
    open_ = len(goals) - met - len(missed)
    yield "Targets are set before a measurement. A row is the worst case of equal targets of a group."
    yield f"Of {len(goals)} rows, {met} are met, {len(missed)} are missed and {open_} are not measured."
    yield "Missed are:" if missed else "None is missed."
    yield from ("", GOALS_HEAD, *missed) if missed else ()
    yield from ("", *folded("All targets", [GOALS_HEAD, *goals]))


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
    yield from (f"### {group['title']}", "")
    lines = [f"![{group['title']}]({picture_of(id)})", ""] if curves(group) else []
    lines += ["| | figure | quartiles | unit | target | |", "|---|---|---|---|---|---|"]
    for figure, busy in _with_noise(group):
        spread = "" if figure.low is None else f"{number(figure.low)} – {number(figure.high)}"
        remark = " · ".join(part for part in (verdict(figure, busy), _note(figure)) if part)
        cells = (figure.what, number(figure.value), spread, figure.unit, _sign(figure.target), remark)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"`{group['command']}`, {group['date']}, commit {group['commit']}, load before: "]
    lines[-1] += f"{group['load_before']}."
    yield from folded(f"{len(group['figures'])} figures", [*lines, *_versions(group, machine)])


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
