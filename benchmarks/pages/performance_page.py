"""Parts of docs/performance.md that are made from a result file, and tables for other pages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.gpu import page as gpu
from benchmarks.hardware.page_files import table
from benchmarks.pages.results import Pair, lacking, pair, processor, rows_of
from benchmarks.throughput.target import NOISE, Figure, PerformanceTarget
from benchmarks.throughput.timing import QUIET

SUMMARY_PICTURE = "performance_summary.webp"
SHOWN = (
    ("peers-simple-tag", "16,384 worlds", "SimpleTag-v0, 16,384 worlds"),
    ("peers-simple-tag", "1 world", "SimpleTag-v0, 1 world"),
    ("peers-simple-spread", "16,384 worlds", "SimpleSpread-v0, 16,384 worlds"),
    ("peers-tag-continuous", "105 agents, 1,024 worlds", "TagContinuous-v0, 105 agents, 1,024 worlds"),
    ("peers-foraging", "4,096 worlds", "LevelBasedForaging-v0, 4,096 worlds"),
    ("peers-warehouse", "4,096 worlds", "RobotWarehouse-v0, 4,096 worlds"),
    ("peers-overcooked", "4,096 worlds", "Overcooked-v0, 4,096 worlds"),
    ("peers-hanabi", "4,096 worlds", "Hanabi-v0, 4,096 worlds"),
    ("peers-smax", "2s3z, 1,024 worlds", "SMAX-v0, 2s3z, 1,024 worlds"),
    ("peers-economy", "1,024 worlds", "GatherTradeBuild-v0, 1,024 worlds"),
    ("peers-cartpole", "4,096 worlds", "CartPole-v1, 4,096 worlds"),
    ("peers-cartpole", "1 world", "CartPole-v1, 1 world"),
    ("peers-classic", "Acrobot-v1, 4,096 worlds", "Acrobot-v1, 4,096 worlds"),
    ("peers-games", "LeducPoker-v0, observed", "random games of LeducPoker-v0, observed"),
    ("peers-training", "CartPole-v1, 8 worlds, 1 thread", "PPO on CartPole-v1, 8 worlds, 1 thread"),
    ("peers-training", "SimpleSpread-v0, 16 worlds, 1 thread", "PPO on SimpleSpread-v0, 16 worlds, 1 thread"),
    ("peers-training", "SimpleSpread-v0, all cores", "PPO on SimpleSpread-v0, all cores"),
)
"""Group, round and label of each row of the summary."""


def parts(
    result: dict[str, Any], source: str, targets: Sequence[PerformanceTarget], gpus: Sequence[dict[str, Any]] = ()
) -> dict[str, str]:
    """Return the parts of the page by name.

    Args:
        result: Contents of a result file.
        source: Path of the result file, as shown on the page.
        targets: Groups in the order of the page, with their targets.
        gpus: Reports of `make gpu-report`.
    """
    groups = {target.id: result["groups"][target.id] for target in targets if target.id in result["groups"]}
    goals = [row for target in targets for row in _goals(target, groups.get(target.id, {"figures": []}))]
    goals += [row for report in gpus or ({"machine": {}, "parts": {}},) for row in _goals_of_gpu(report)]
    verdicts = [row[-1] for row in goals]
    met, missed = (sum(verdict.startswith(start) for verdict in verdicts) for start in ("met", "**"))
    command = f"python -m benchmarks.pages.report --from {source}"
    count, machine = sum(len(group["figures"]) for group in groups.values()), result["machine"]
    return {
        "summary": f"<!-- Generated from `{source}` by `{command}`. -->\n\n{_summary(result)}",
        "targets": f"Of {len(goals)} rows, {met} are met, {missed} are missed and {len(goals) - met - missed} are not "
        "measured.\n\n"
        + table(("", "figure", "unit", "target", ""), sorted(goals, key=lambda row: row[-1] != "**not met**")),
        "comparisons": table(
            ("", "unit", "gpu-envs", "best library", "ratio", "share of the C step", "share of the memory bound"),
            (row for group in groups.values() for row in _comparisons(group, machine)),
        )
        + f"\n\n{unmeasured(groups)}",
        "interfaces": table(
            ("", "unit", "figure", "ratio"), (row for group in groups.values() for row in _interfaces(group, machine))
        ),
        "curves": "\n".join(f"![{group['title']}]({picture_of(id)})" for id, group in groups.items() if curves(group)),
        "runs": f"{count} figures were measured in these runs. Versions of the result file of this page: "
        f"{', '.join(f'{name} {version}' for name, version in machine.items())}.\n\n"
        + table(("id", "group", "date", "commit", "processor"), (_run(id, groups[id], machine) for id in groups)),
    }


def _run(id: str, group: dict[str, Any], machine: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of a group: when, on which commit and where it was measured."""
    cpu = group.get("machine", machine)["cpu"]
    return id, group["title"], group["date"].partition(" ")[0], group["commit"], processor(cpu)


def number(value: float | None) -> str:
    """Format a number with three significant digits and thousands separated."""
    if value is None:
        return ""
    if value == 0 or abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def pairs(result: Mapping[str, Any]) -> list[Pair]:
    """Return the pairs of the summary that a result has."""
    result_pairs = []
    for group_id, round_title, label in SHOWN:
        rows = rows_of(result["groups"].get(group_id, {"figures": []}))
        if {"gpu_envs", "peer"} <= {row["kind"] for row in rows if row["round"] == round_title}:
            result_pairs.append(pair(result, group_id, round_title, label))
    return result_pairs


def _summary(result: Mapping[str, Any]) -> str:
    """Return the chart and the table of the main comparisons, with machines, commits and missing libraries below."""
    rows, commits = [], dict[str, dict[str, None]]()
    own_processor, ratios = processor(result["machine"]["cpu"]), [row.ratio for row in pairs(result)]
    for row in pairs(result):
        remarks = [row.processor if row.processor != own_processor else "", "the machine was busy" if row.busy else ""]
        remark = ", ".join(filter(None, remarks))
        label = f"{row.label} ({remark})" if remark else row.label
        rates = [f"{number(rate)} {row.unit}" for rate in (row.rate, row.other_rate)]
        rows.append((label, f"{number(row.ratio)} x", rates[0], f"{row.other}: {rates[1]}"))
        commits.setdefault(f"{row.processor}, {row.cores} cores", {})[row.commit] = None
    if not rows:
        return "Nothing is measured."
    alt = (
        f"Speed of gpu-envs over the fastest other library in {len(ratios)} comparisons: faster in "
        f"{sum(ratio > 1 for ratio in ratios)}, from {number(min(ratios))} to {number(max(ratios))} times"
    )
    groups = {group_id: result["groups"][group_id] for group_id, *_ in SHOWN if group_id in result["groups"]}
    machines = [f"{machine}, commit {' and '.join(sorted(commits[machine]))}." for machine in commits]
    head = table(("", "ratio", "gpu-envs", "fastest other library"), rows)
    below = " ".join(filter(None, [*machines, unmeasured(groups)]))
    return f"![{alt}]({SUMMARY_PICTURE})\n\n{head}\n\n{below}"


def unmeasured(groups: Mapping[str, Any]) -> str:
    """Return the contenders without figures and their groups as one sentence; empty if there are none."""
    names: dict[str, dict[str, None]] = {}
    for id, group in groups.items():
        for _, name in lacking(id, group):
            names.setdefault(name, {})[group["title"].split(" compared ")[0]] = None
    listed = "; ".join(f"{name} ({', '.join(titles)})" for name, titles in names.items())
    return listed and f"Not measured: {listed}."


def _goals(target: PerformanceTarget, group: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield one row per set of equal targets and verdicts: the worst of them."""
    goals = {goal.what: (replace(goal, note="not in this result file"), False) for goal in target.promised}
    busy = False
    measured = []
    for figure in reversed([Figure(**entry) for entry in group["figures"]]):  # the noise follows its figures
        busy = (figure.value or 0.0) > 100 * QUIET if figure.what == NOISE else busy
        measured.append((figure, busy))
    goals |= {figure.what: (figure, busy) for figure, busy in reversed(measured) if figure.target}
    alike: dict[tuple[str, ...], list[Figure]] = {}
    for figure, busy in goals.values():
        alike.setdefault((figure.unit, figure.target, verdict(figure, busy)), []).append(figure)
    for (unit, limit, judged), figures in alike.items():
        worst = min(figures, key=lambda figure: figure.margin)
        title = worst.what if target.title in worst.what else f"{target.title}: {worst.what}"
        if len(figures) > 1:
            title += f" (and {len(figures) - 1} more)" if worst.value is None else f" (the worst of {len(figures)})"
        yield title, number(worst.value), unit, _sign(limit), judged


def _goals_of_gpu(report: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield one row per target of a GPU report."""
    name = report["machine"].get("name", "one GPU, `make gpu-report`")
    for goal in gpu.goals(report):
        remark = " · ".join(part for part in (goal["verdict"], goal["note"]) if part)
        yield f"{name}: {goal['goal']}", number(goal["value"]), goal["unit"], _sign(goal["target"]), remark


def _titled_rounds(group: dict[str, Any], machine: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield title and rows of each round; the title has the group's processor if it is not the page's."""
    cpu = group.get("machine", machine).get("cpu")
    processor_note = "" if cpu in (None, machine.get("cpu")) else f" ({processor(cpu)})"
    rows = rows_of(group)
    for title in dict.fromkeys(row["round"] for row in rows):
        yield f"{group['title']}{processor_note}: {title}", [row for row in rows if row["round"] == title]


def _comparisons(group: dict[str, Any], machine: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each contender of gpu-envs; the first of a round is the reference of all ratios."""
    for title, rows in _titled_rounds(group, machine):
        if any(row["kind"] == "interface" for row in rows):
            continue
        best = max((row for row in rows if row["kind"] == "peer"), key=lambda row: row["rate"], default=None)
        for contender in (row for row in rows if row["kind"] == "gpu_envs"):
            is_reference = contender["ratio"] == 1
            name = title if is_reference else f"{title}, {contender['name']}"
            library = ratio = ""
            if best is not None:
                library = f"{best['name']} {number(best['rate'])}"
                ratio = number(best["ratio"] / contender["ratio"])
                ratio += f" ({number(best['ratio_low'])} – {number(best['ratio_high'])})" if is_reference else ""
            shares = (
                number(next((row["ratio"] for row in rows if row["kind"] == kind and is_reference), None))
                for kind in ("bound", "memory")
            )
            yield name + _busy(contender), contender["unit"], number(contender["rate"]), library, ratio, *shares


def _interfaces(group: dict[str, Any], machine: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each contender of a round with interfaces."""
    for title, rows in _titled_rounds(group, machine):
        if any(row["kind"] == "interface" for row in rows):
            for row in rows:
                if row["kind"] in ("gpu_envs", "interface", "peer"):
                    yield f"{title}, {row['name']}{_busy(row)}", row["unit"], number(row["rate"]), number(row["ratio"])


def _busy(row: dict[str, Any]) -> str:
    return " (the machine was busy)" if row["others"] > QUIET else ""


def curves(group: dict[str, Any]) -> list[Figure]:
    """Return the figures of a group that are plotted."""
    return [figure for figure in (Figure(**entry) for entry in group["figures"]) if figure.curve]


def picture_of(id: str) -> str:
    """Return the file name of the plot of a group."""
    return f"performance_{id.replace('-', '_')}.webp"


def verdict(figure: Figure, busy: bool = False) -> str:
    """Return whether a target is met; a target is not judged on a busy machine."""
    if figure.target and figure.value is None:
        return f"not measured: {figure.note}"
    if figure.met is not None and busy:
        return "not measured: the machine was busy"
    return {None: "", True: "met", False: "**not met**"}[figure.met]


def _sign(target: str) -> str:
    return target.replace(">=", "≥").replace("<=", "≤")


LIBRARIES = {
    "JaxMARL": "JaxMARL",
    "VMAS as shipped": "VMAS as shipped, with 10 substeps",
    "VMAS": "VMAS with 1 substep, the work of MPE",
    "EnvPool": "EnvPool",
    "mpe2": "mpe2, the MPE of PettingZoo",
    "WarpDrive": "WarpDrive's NumPy worlds, which run on a CPU",
    "gymnax": "gymnax",
    "Gymnasium": "Gymnasium",
    "pyspiel": "OpenSpiel",
    "Stable-Baselines3": "Stable-Baselines3",
}
"""Libraries by words of their contenders' names; the first match counts."""
WORK = {"peers-rolled": "whole rollouts in one call", "interfaces-one": "one world, by its usual interface"}
"""Work of the groups that measure neither steps of a batch nor training."""


def ranges(result: Mapping[str, Any]) -> str:
    """Return a table for docs/which_library.md: lowest and highest ratio to each library, with the rounds of both."""
    ratios_of_work: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for group_id, group in result["groups"].items():
        work = WORK.get(group_id, "training" if "training" in group_id else "simulation")
        for row in rows_of(group):
            name = next((name for word, name in LIBRARIES.items() if word in row["name"]), None)
            if row["kind"] == "peer" and name:
                title = group["title"].split(" compared ")[0].split(":")[0]
                round_title = row["round"] if "-v" in row["round"] else f"{title}, {row['round']}"
                ratios_of_work.setdefault((name, work), []).append((row["ratio"], round_title))
    rows = []
    for name in LIBRARIES.values():
        for (_, work), ratios in ((key, sorted(ratios)) for key, ratios in ratios_of_work.items() if key[0] == name):
            rows.append((name, work, *(f"{number(ratio)} x: {title}" for ratio, title in (ratios[0], ratios[-1]))))
    return table(("library", "", "lowest ratio", "highest ratio"), rows)
