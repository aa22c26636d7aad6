"""docs/learning.md and its pictures, from recorded results."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar
from benchmarks.origin import ROOT

PAGE = ROOT / "docs" / "learning.md"
PICTURE = ROOT / "docs" / "learning_curves.png"

HEAD = """# What it learns

Made by `python -m benchmarks.learning` from `benchmarks/results/learning/bars.json`; do not edit. Every row is trained
by the command below it with seeds 0, 1, 2, ..., without a picture of the best run: all seeds count. A return is the
sum over an episode of the rewards of all agents of a group, its mean over 1024 episodes in worlds that no training has
seen; the value that must reach the bar is the lower end of the 95 % interval of the worst seed.

![learning curves](learning_curves.png)

"""


def write(results: dict[str, Any], bars: Sequence[Bar]) -> None:
    """Write the page and the curves."""
    shown = [bar for bar in bars if bar.name in results]
    _draw({bar.name: results[bar.name] for bar in shown}, PICTURE)
    lines = [
        HEAD,
        "| task | judged | bar | seeds | worst end | random | met |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for bar in shown:
        lines.append(_row(bar, results[bar.name]))
    lines.append("")
    for bar in shown:
        lines += _about(bar, results[bar.name])
    PAGE.write_text("\n".join(lines), encoding="utf-8")


def _row(bar: Bar, result: dict[str, Any]) -> str:
    worst = (max if bar.below else min)(result["ends"])
    values = ", ".join(f"{value:.1f}" for value in result["values"])
    chance = "-"
    if bar.of.startswith("return "):
        mean, half = result["runs"][0]["random"][bar.of.removeprefix("return ")]
        chance = f"{mean:.1f} ± {half:.1f}"
    bound = "recorded" if bar.bound is None else f"{'≤' if bar.below else '≥'} {bar.bound:g}"
    met = {True: "yes", False: "**no**", None: "-"}[result["met"]]
    return f"| [{bar.name}](#{bar.name}) | {bar.of} | {bound} | {values} | {worst:.1f} | {chance} | {met} |"


def _about(bar: Bar, result: dict[str, Any]) -> list[str]:
    runs = result["runs"]
    steps = ", ".join(f"{run['steps']:,}" for run in runs)
    seconds = ", ".join(f"{run['wall']:.0f}" for run in runs)
    machine = result["machine"]
    return [
        f"## {bar.name}",
        "",
        f"    gpu-envs train {bar.options} --seed SEED",
        "",
        f"{bar.source[0].upper()}{bar.source[1:]}. Steps of worlds: {steps}. Seconds from start to exit: {seconds}. "
        f"{'Most probable' if bar.greedy else 'Sampled'} actions. Commit {result['commit']}, {result['date']}, "
        f"{machine['cpu'].split(' (')[0]}, {machine['cores']} cores, torch {machine['torch']}.",
        "",
    ]


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
    figure.savefig(path, dpi=110)
