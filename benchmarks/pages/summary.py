"""The summary of a result file: gpu-envs and the fastest other library, as pairs, a table and a chart."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.pages import sources
from benchmarks.throughput.timing import QUIET

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
"""Group, round and label of each row."""


def number(value: float | None) -> str:
    """Format a number with three significant digits and thousands separated."""
    if value is None:
        return ""
    if value == 0 or abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


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
    rows = [figure.get("row") or {} for figure in group["figures"]]
    contenders = [row for row in rows if row.get("round") == round_title]
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
        sources.processor(machine["cpu"]),
        machine["cores"],
        group["commit"],
        native["others"] > QUIET,
    )


def pairs(result: Mapping[str, Any], selection: Sequence[tuple[str, str, str]] | None = None) -> list[Pair]:
    """Return the pairs of the rows that a result has; ``selection`` is SHOWN by default."""
    result_pairs = []
    for group_id, round_title, label in SHOWN if selection is None else selection:
        rows = [figure.get("row") or {} for figure in result["groups"].get(group_id, {"figures": []})["figures"]]
        if {"gpu_envs", "peer"} <= {row["kind"] for row in rows if row.get("round") == round_title}:
            result_pairs.append(pair(result, group_id, round_title, label))
    return result_pairs


def table(result: Mapping[str, Any]) -> list[str]:
    """Return the table as lines of Markdown, with machines, commits and missing libraries below; empty without rows."""
    rows = pairs(result)
    if not rows:
        return []
    lines = ["| | ratio | gpu-envs | fastest other library |", "| --- | --- | --- | --- |"]
    processor = sources.processor(result["machine"]["cpu"])
    commits: dict[str, dict[str, None]] = {}
    for row in rows:
        remarks = [row.processor if row.processor != processor else "", "the machine was busy" if row.busy else ""]
        remark = ", ".join(filter(None, remarks))
        label = f"{row.label} ({remark})" if remark else row.label
        rates = [f"{number(rate)} {row.unit}" for rate in (row.rate, row.other_rate)]
        lines.append(f"| {label} | {number(row.ratio)} x | {rates[0]} | {row.other}: {rates[1]} |")
        commits.setdefault(f"{row.processor}, {row.cores} cores", {})[row.commit] = None
    groups = {group_id: result["groups"][group_id] for group_id, *_ in SHOWN if group_id in result["groups"]}
    machines = [f"{machine}, commit {' and '.join(sorted(commits[machine]))}." for machine in commits]
    return [*lines, "", " ".join(filter(None, [*machines, sources.unmeasured(groups)]))]


def alt_text(result: Mapping[str, Any]) -> str:
    """Return a description of the chart for readers who do not see it."""
    ratios = [row.ratio for row in pairs(result)]
    faster = sum(ratio > 1 for ratio in ratios)
    return (
        f"Speed of gpu-envs over the fastest other library in {len(ratios)} comparisons: faster in {faster}, from "
        f"{number(min(ratios))} to {number(max(ratios))} times"
    )


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


def ranges(result: Mapping[str, Any]) -> list[str]:
    """Return a table as lines of Markdown: lowest and highest ratio to each library, with the rounds of both."""
    ratios_of_work: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for group_id, group in result["groups"].items():
        work = WORK.get(group_id, "training" if "training" in group_id else "simulation")
        for row in (figure.get("row") or {} for figure in group["figures"]):
            name = next((name for word, name in LIBRARIES.items() if word in row.get("name", "")), None)
            if row.get("kind") == "peer" and name:
                title = group["title"].split(" compared ")[0].split(":")[0]
                round_title = row["round"] if "-v" in row["round"] else f"{title}, {row['round']}"
                ratios_of_work.setdefault((name, work), []).append((row["ratio"], round_title))
    lines = ["| library | | lowest ratio | highest ratio |", "| --- | --- | --- | --- |"]
    for name in LIBRARIES.values():
        for (_, work), ratios in ((key, sorted(ratios)) for key, ratios in ratios_of_work.items() if key[0] == name):
            ends = [f"{number(ratio)} x: {title}" for ratio, title in (ratios[0], ratios[-1])]
            lines.append(f"| {name} | {work} | {' | '.join(ends)} |")
    return lines
