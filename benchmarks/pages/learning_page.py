"""docs/learning.md and its pictures, from recorded results."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar, Goal
from benchmarks.origin import ROOT

PAGE = ROOT / "docs" / "learning.md"
PICTURE = ROOT / "docs" / "learning_curves.png"

HEAD = """# What it learns

Made by `python -m benchmarks.learning` from `benchmarks/results/learning/bars.json`; do not edit. Every task is trained
by the command below it with seeds 0, 1, 2, and all seeds count. A return is the sum over an episode of the rewards of
all agents of a group, its mean over 1024 episodes of the last policies in worlds that no training has seen. The worst
seed's end of the 95 % interval must reach the bound. Policies of seed 0 are in the model zoo, `trainers.zoo`, under the
name of the task: `gpu-envs eval zoo:NAME`.

![learning curves](learning_curves.png)

"""


def write(results: dict[str, Any], bars: Sequence[Bar]) -> None:
    """Write the page and the curves."""
    shown = [bar for bar in bars if bar.name in results]
    _draw({bar.name: results[bar.name] for bar in shown}, PICTURE)
    lines = [HEAD, "| task | judged | bound | seeds | worst end | met |", "| --- | --- | --- | --- | --- | --- |"]
    for bar in shown:
        pairs = zip(bar.goals, results[bar.name]["goals"], strict=True)
        lines += [_row(bar, goal, reached) for goal, reached in pairs]
    lines.append("")
    for bar in shown:
        lines += _about(bar, results[bar.name], results)
    PAGE.write_text("\n".join(lines), encoding="utf-8")


def _row(bar: Bar, goal: Goal, reached: dict[str, Any]) -> str:
    worst = (max if goal.below else min)(reached["ends"])
    values = ", ".join(f"{value:.1f}" for value in reached["values"])
    bound = "recorded"
    if goal.bound is not None:
        least = (min if goal.below else max)(reached["bounds"])
        bound = f"{'≤' if goal.below else '≥'} {least:.1f}" + (
            f" ({goal.bound})" if isinstance(goal.bound, str) else ""
        )
    met = {True: "yes", False: "**no**", None: "-"}[reached["met"]]
    judged = goal.of + (f", only {', '.join(goal.playing)} trained" if goal.playing else "")
    return f"| [{bar.name}](#{bar.name}) | {judged} | {bound} | {values} | {worst:.1f} | {met} |"


def _about(bar: Bar, result: dict[str, Any], results: dict[str, Any]) -> list[str]:
    runs, machine = result["runs"], result["machine"]
    steps = ", ".join(f"{run['steps']:,}" for run in runs)
    seconds = ", ".join(f"{run['wall']:.1f}" for run in runs)
    chance = ", ".join(
        f"{group} {mean:.1f} ± {half:.1f}" for group, (mean, half) in runs[0]["others"]["random"].items()
    )
    greedy = "Most probable" if all(goal.greedy for goal in bar.goals) else "Sampled"
    lines = [
        f"## {bar.name}",
        "",
        f"    gpu-envs train {bar.options} --seed SEED",
        "",
        f"{bar.source[0].upper()}{bar.source[1:]}. Random policies: {chance}. Steps of worlds: {steps}. Seconds from "
        f"start to exit: {seconds}. {greedy} actions. Commit {result['commit']}, {result['date']}, "
        f"{machine['cpu'].split(' (')[0]}, {machine['cores']} cores, torch {machine['torch']}.",
        "",
    ]
    if any(goal.bound == "jaxmarl" for goal in bar.goals):
        theirs = results["jaxmarl"]
        returns = ", ".join(f"{value:.2f}" for value in theirs["returns"])
        lines += [
            f"JaxMARL's returns per agent, {len(theirs['returns'])} seeds: {returns}, by `python {theirs['command']}`.",
            "",
        ]
    return lines


def _draw(results: dict[str, Any], path: Path) -> None:
    """One panel per bar, a line per seed and group: return per agent over steps of worlds."""
    from matplotlib.figure import Figure

    wide = min(4, max(1, len(results)))
    high = max(1, math.ceil(len(results) / wide))
    figure = Figure(figsize=(3.6 * wide, 2.6 * high), layout="constrained")
    for place, (name, result) in enumerate(results.items(), start=1):
        axes = figure.add_subplot(high, wide, place)
        groups = list(result["runs"][0]["curve"])
        for run in result["runs"]:
            for color, group in enumerate(groups):
                points = run["curve"].get(group, [])
                label = group if run is result["runs"][0] and len(groups) > 1 else None
                axes.plot(
                    *zip(*points, strict=True), color=f"C{color}", alpha=0.7, lw=1.1, label=label
                ) if points else None
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
        axes.grid(alpha=0.3)
        if len(groups) > 1:
            axes.legend(fontsize=7)
    figure.supxlabel("steps of worlds", fontsize=8)
    figure.supylabel("return per agent", fontsize=8)
    figure.savefig(path, dpi=80)
