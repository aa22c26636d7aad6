"""Writer of docs/performance.md: a template with tables of a result file."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.gpu import page as gpu
from benchmarks.pages import sources, summary
from benchmarks.pages.summary import number
from benchmarks.peers.published import PUBLISHED
from benchmarks.throughput.target import NOISE, Figure, PerformanceTarget
from benchmarks.throughput.timing import QUIET

TEMPLATE = """\
# Performance

<!-- Generated from `{source}` by `python -m benchmarks.pages.report --from {source}`; do not edit. -->

How many steps per second gpu-envs simulates and trains, compared with other libraries on the same CPU cores.
**No GPU has been measured yet.**

{summary}

## How to read the figures

- Contenders take turns within one run on the same machine. Figures are medians, ratios compare adjacent turns,
  with quartiles in parentheses. A ratio without quartiles is a quotient of two medians.
- Random actions are sampled beforehand. Observations, rewards, flags and the start of new episodes are included.
- `core.step` overwrites its results in the next step, as in the trainers, unless a row says clones, the default of
  `make`. Copying can take longer than the step, see [interfaces](#interfaces).
- The fastest other library is the fastest one that was installed and does the same work, observations included.
- A sample counts if other processes used at most 5 % of the machine. If there are too few such samples, the least
  disturbed are used, the row says that the machine was busy, and its targets are not judged.
- A row names its processor if it is not this page's. Ratios of different rows are not comparable with each other.
- The figures hold for these environments and for a few CPU cores. They say nothing about GPUs, and nothing about
  rewards: [Learning results](learning.md) shows what trainings reach.

The result files have {count} figures with quartiles, notes and versions; this page shows some of them. They are in
[`benchmarks/results`](../benchmarks/results), by the ids of [Runs](#runs). [Benchmarks](guides/benchmark.md) has the
method and the commands. [Kernels](kernels.md) has the resources of the GPU kernels. [Which one for
me?](which_library.md) shows the lowest and the highest ratio to each library.

## Targets

Targets are set before a measurement. A row is the worst case of equal targets of a group.
{verdicts}

| | figure | unit | target | |
|---|---|---|---|---|
{targets}

## Comparison with other libraries

The C step is the same work in scalar C with OpenMP (`benchmarks/hardware/bounds/`), tested to give the same results.
The memory bound is the number of bytes that a step must move over the copy bandwidth of the machine. A share above 1
means that the worlds stay in the caches.

| | unit | gpu-envs | best library | ratio | share of the C step | share of the memory bound |
|---|---|---|---|---|---|---|
{comparisons}

{unmeasured}

Published, not measured here:

| | what | figure | on | source |
|---|---|---|---|---|
{published}

## Interfaces

The ratio compares the first contender of a round with the row.

| | unit | figure | ratio |
|---|---|---|---|
{interfaces}

## Curves

{curves}

## Runs

`python -m benchmarks.pages.report --only ID` measures a group again.

| id | group | date | commit | processor |
|---|---|---|---|---|
{runs}

Versions of the result file of this page: {versions}.
"""
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
    groups = {target.id: result["groups"][target.id] for target in targets if target.id in result["groups"]}
    goals = [row for target in targets for row in _goals(target, groups.get(target.id, {"figures": []}))]
    goals += [row for report in gpus or (NO_GPU,) for row in _goals_of_gpu(report)]
    return TEMPLATE.format(
        source=source,
        summary="\n".join(_summary(result)),
        count=sum(len(group["figures"]) for group in groups.values()),
        verdicts=_verdicts(goals),
        targets="\n".join(sorted(goals, key=lambda row: "**not met**" not in row)),
        comparisons="\n".join(row for group in groups.values() for row in _comparisons(group, result["machine"])),
        unmeasured=sources.unmeasured(groups),
        published="\n".join(
            f"| {entry.name} | {entry.what} | {entry.figure} | {entry.device} | {entry.source} |" for entry in PUBLISHED
        ),
        interfaces="\n".join(row for group in groups.values() for row in _interfaces(group, result["machine"])),
        curves="\n".join(f"![{group['title']}]({picture_of(id)})" for id, group in groups.items() if curves(group)),
        runs="\n".join(_run(id, group, result["machine"]) for id, group in groups.items()),
        versions=", ".join(f"{name} {version}" for name, version in result["machine"].items()),
    )


def _summary(result: dict[str, Any]) -> Iterator[str]:
    """Yield the chart and the table of the main comparisons; nothing without them."""
    if rows := summary.table(result):
        yield from (f"![{summary.alt_text(result)}]({SUMMARY_PICTURE})", "", "## Summary", "", *rows)


def _verdicts(goals: Sequence[str]) -> str:
    """Return how many targets are met."""
    verdicts = [row.rsplit("|", 2)[1].strip() for row in goals]
    met, missed = (sum(verdict.startswith(start) for verdict in verdicts) for start in ("met", "**"))
    return f"Of {len(goals)} rows, {met} are met, {missed} are missed and {len(goals) - met - missed} are not measured."


def _goals(target: PerformanceTarget, group: dict[str, Any]) -> Iterator[str]:
    """Yield one row per set of equal targets and verdicts: the worst of them."""
    goals = {goal.what: (replace(goal, note="not in this result file"), False) for goal in target.promised}
    goals |= {figure.what: (figure, busy) for figure, busy in _with_noise(group) if figure.target}
    alike: dict[tuple[str, ...], list[Figure]] = {}
    for figure, busy in goals.values():
        alike.setdefault((figure.unit, figure.target, verdict(figure, busy)), []).append(figure)
    for (unit, limit, judged), figures in alike.items():
        worst = min(figures, key=lambda figure: figure.margin)
        title = worst.what if target.title in worst.what else f"{target.title}: {worst.what}"
        if len(figures) > 1:
            title += f" (and {len(figures) - 1} more)" if worst.value is None else f" (the worst of {len(figures)})"
        yield f"| {title} | {number(worst.value)} | {unit} | {_sign(limit)} | {judged} |"


def _goals_of_gpu(report: dict[str, Any]) -> Iterator[str]:
    """Yield one row per target of a GPU report."""
    name = report["machine"].get("name", "one GPU, `make gpu-report`")
    for goal in gpu.goals(report):
        remark = " · ".join(part for part in (goal["verdict"], goal["note"]) if part)
        cells = (f"{name}: {goal['goal']}", number(goal["value"]), goal["unit"], _sign(goal["target"]), remark)
        yield f"| {' | '.join(cells)} |"


def _rounds(group: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield title and rows of each round of a comparison."""
    rows = [figure["row"] for figure in group["figures"] if figure.get("row")]
    for title in dict.fromkeys(row["round"] for row in rows):
        yield title, [row for row in rows if row["round"] == title]


def _title(group: dict[str, Any], machine: dict[str, Any]) -> str:
    """Return the title of a group, with its processor if it is not the page's."""
    elsewhere = sources.elsewhere(group, machine)
    return group["title"] + (f" ({elsewhere})" if elsewhere else "")


def _comparisons(group: dict[str, Any], machine: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each contender of gpu-envs; the first of a round is the reference of all ratios."""
    for title, rows in _rounds(group):
        if any(row["kind"] == "interface" for row in rows):
            continue
        best = max((row for row in rows if row["kind"] == "peer"), key=lambda row: row["rate"], default=None)
        for contender in (row for row in rows if row["kind"] == "gpu_envs"):
            is_reference = contender["ratio"] == 1
            name = f"{_title(group, machine)}: {title}" + ("" if is_reference else f", {contender['name']}")
            library = ratio = ""
            if best is not None:
                library = f"{best['name']} {number(best['rate'])}"
                ratio = number(best["ratio"] / contender["ratio"])
                ratio += f" ({number(best['ratio_low'])} – {number(best['ratio_high'])})" if is_reference else ""
            shares = (
                number(next((row["ratio"] for row in rows if row["kind"] == kind and is_reference), None))
                for kind in ("bound", "memory")
            )
            cells = (name + _busy(contender), contender["unit"], number(contender["rate"]), library, ratio, *shares)
            yield f"| {' | '.join(cells)} |"


def _interfaces(group: dict[str, Any], machine: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each contender of a round with interfaces."""
    for title, rows in _rounds(group):
        if any(row["kind"] == "interface" for row in rows):
            for row in rows:
                if row["kind"] in ("gpu_envs", "interface", "peer"):
                    name = f"{_title(group, machine)}: {title}, {row['name']}{_busy(row)}"
                    yield f"| {name} | {row['unit']} | {number(row['rate'])} | {number(row['ratio'])} |"


def _busy(row: dict[str, Any]) -> str:
    return " (the machine was busy)" if row["others"] > QUIET else ""


def _run(id: str, group: dict[str, Any], machine: dict[str, Any]) -> str:
    """Return the row of a group: when, on which commit and where it was measured."""
    processor = sources.processor(group.get("machine", machine)["cpu"])
    return f"| {id} | {group['title']} | {group['date'].partition(' ')[0]} | {group['commit']} | {processor} |"


def _with_noise(group: dict[str, Any]) -> list[tuple[Figure, bool]]:
    """Return figures with whether the machine was busy, from the next noise figure."""
    busy, judged = False, []
    for figure in reversed([Figure(**entry) for entry in group["figures"]]):
        busy = (figure.value or 0.0) > 100 * QUIET if figure.what == NOISE else busy
        judged.append((figure, busy))
    return judged[::-1]


def curves(group: dict[str, Any]) -> list[Figure]:
    """Return the figures of a group that are plotted."""
    return [figure for figure in (Figure(**entry) for entry in group["figures"]) if figure.curve]


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
