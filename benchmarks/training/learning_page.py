"""Writer of parts of docs/learning.md and of the curves on pages of algorithms, from recorded results."""

import math
import shlex
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.hardware.page_files import filled, save_figure, table
from benchmarks.hardware.provenance import ROOT
from benchmarks.training import baselines
from benchmarks.training.tasks import Goal, TrainingTask
from gpu_envs.definition import registry
from gpu_envs.rendering.palette import PALETTE, role_colors
from gpu_envs.utils.settings import build_config
from trainers.algorithms.algorithm_specs import find

PAGE = ROOT / "docs" / "learning.md"
CURVES = ROOT / "docs" / "algorithms"

COLUMNS = ("task", "metric", "seeds", "worst bound", "thresholds, and whether they are reached")
TRAINING_COLUMNS = ("task", "command", "thresholds", "zoo", "seeds", "environment steps", "seconds", "recorded")


def algorithm_of(task: TrainingTask) -> str:
    """Return the name of the algorithm of a task."""
    options = shlex.split(task.options)
    return options[options.index("--algorithm") + 1] if task.command == "train" and "--algorithm" in options else "ppo"


def title(task: TrainingTask) -> str:
    """Return the heading of a task, such as "QMIX on TwoStepGame-v0"."""
    prefix = "league of " if task.command == "league train" else ""
    words = shlex.split(task.options)
    text = f"{prefix}{algorithm_of(task).upper()} on {words[0]}"
    if "--num-actors" in words:
        count = words[words.index("--num-actors") + 1]
        text += f" with {count} actor{'s' * (count != '1')}"
    text += f" {task.variant}" if task.variant else ""
    return text[0].upper() + text[1:]


def family_of(task: TrainingTask) -> str:
    """Return the family of the algorithm of a task: the name of its module, which its variants share."""
    return find(algorithm_of(task)).family


def write(results: dict[str, Any], tasks: Sequence[TrainingTask]) -> None:
    """Write the page, and the curves of every family of algorithms."""
    recorded = [task for task in tasks if task.name in results]
    for family in dict.fromkeys(map(family_of, recorded)):
        curves = {task: results[task.name] for task in recorded if family_of(task) == family}
        _draw(curves, CURVES / f"{family}_curves.png")
    PAGE.write_text(filled(PAGE, parts(results, tasks)), encoding="utf-8")


def parts(results: dict[str, Any], tasks: Sequence[TrainingTask]) -> dict[str, str]:
    """Return the parts of the page by name."""
    recorded = [task for task in tasks if task.name in results]
    bounds = dict.fromkeys(
        name for task in recorded for goal in task.goals if (name := baselines.baseline_of(goal.bound))
    )
    described = [f"- {name}: {baselines.describe(name, results[baselines.file_of(name)])}" for name in bounds]
    return {
        "results": table(COLUMNS, (row for task in recorded for row in _results(task, results[task.name]))),
        "trainings": table(TRAINING_COLUMNS, (_training(task, results[task.name]) for task in recorded)),
        "baselines": "\n".join(described),
    }


def _results(task: TrainingTask, result: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each metric of a task, with all its thresholds."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for goal, reached in zip(task.goals, result["goals"], strict=True):
        worst, digits = (max if goal.below else min)(reached["ends"]), _digits(reached)
        values = ", ".join(f"{value:.{digits}f}" for value in reached["values"])
        row = (title(task), _judged(goal), values, f"{worst:.{digits}f}")
        rows.setdefault(row, []).append(_threshold(task, goal, reached, digits))
    for cells, thresholds in rows.items():
        yield *cells, "; ".join(thresholds)


def _digits(reached: dict[str, Any]) -> int:
    """Return the number of decimals of a result: 3 if no number is above 1 in size, else 1."""
    return 3 if max(abs(number) for name in ("values", "ends") for number in reached[name]) <= 1 else 1


def _threshold(task: TrainingTask, goal: Goal, reached: dict[str, Any], digits: int) -> str:
    """Return a threshold with its origin, and whether it is reached."""
    if goal.bound is None:
        return "none"
    bound = (min if goal.below else max)(reached["bounds"])
    origin = ", ".join([*([goal.bound] if isinstance(goal.bound, str) else []), goal.origin or task.origin])
    met = {True: "yes", False: "**no**", None: "-"}[reached["met"]]
    return f"{'≤' if goal.below else '≥'} {bound:.{digits}f} ({origin}): {met}"


def _judged(goal: Goal) -> str:
    """Return what a goal measures, as in the table."""
    playing = ", ".join(goal.playing)
    judged = f"{goal.of}, {playing} trained" if goal.against != "random" else f"{goal.of}, only {playing} trained"
    judged = (judged + f" against {goal.against}" * (goal.against != "random")) if playing else goal.of
    return judged + (f" / {goal.unit:.2f}" if goal.unit != 1.0 else "")


def _training(task: TrainingTask, result: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of a training: command, reason of the thresholds, steps and machine."""
    runs, machine = result["runs"], result["machine"]
    greedy = "most probable" if all(goal.greedy for goal in task.goals) else "sampled"
    evaluated = result.get("evaluated")
    cores = f"{machine['cores']} core{'s' * (machine['cores'] != 1)}"
    recorded = f"{result['date']}, commit {result['commit']}, {machine['cpu'].split(' (')[0]}, {cores}"
    recorded += f"; evaluated {evaluated['date']}, commit {evaluated['commit']}" if evaluated else ""
    return (
        title(task),
        f"`gpu-envs {task.command} {task.options}`",
        f"{task.origin}: {task.source}",
        f"`{task.name}`" if task.zoo else "",
        ", ".join(str(run["seed"]) for run in runs),
        ", ".join(f"{run['steps']:,}" for run in runs),
        ", ".join(f"{run['wall']:.1f}" for run in runs),
        f"{recorded}; {task.episodes:,} episodes of {greedy} actions",
    )


def _evaluated(task: TrainingTask, result: dict[str, Any]) -> dict[str, float]:
    """Return per agent of the final policies by group, the mean over seeds, where a goal measures it."""
    env_id, values = shlex.split(task.options)[0], {}
    config_type, build = registry.find(env_id).load()
    groups = build(build_config(config_type, {}, env_id)).groups
    for goal, reached in zip(task.goals, result["goals"], strict=True):
        if goal.measure in groups and not goal.playing:
            values[goal.measure] = goal.unit * statistics.mean(reached["values"]) / len(groups[goal.measure])
    return values


def _draw(results: dict[TrainingTask, dict[str, Any]], path: Path) -> None:
    """Draw one panel per task: return per agent over environment steps by seed and group, and of the final policies."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    wide = min(3, len(results))
    high = math.ceil(len(results) / wide)
    figure = Figure(figsize=(3.6 * wide, 2.6 * high), layout="constrained")
    for index, (task, result) in enumerate(results.items(), start=1):
        axes = figure.add_subplot(high, wide, index)
        groups = list(result["runs"][0]["curve"])
        colors = role_colors(shlex.split(task.options)[0], groups)
        for run in result["runs"]:
            for group in groups:
                points = run["curve"].get(group, [])
                label = group if run is result["runs"][0] and len(groups) > 1 else None
                axes.plot(
                    *zip(*points, strict=True), color=PALETTE[colors[group]], alpha=0.7, lw=1.1, label=label
                ) if points else None
        for value in _evaluated(task, result).values():
            axes.axhline(value, color="black", ls="--", lw=1.1, label="final policies")
            axes.margins(y=0.08)
        axes.set_title(title(task), fontsize=9)
        axes.tick_params(labelsize=7)
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=7)
    figure.supxlabel("environment steps", fontsize=8)
    figure.supylabel("return per agent", fontsize=8)
    save_figure(figure, path, 110)
