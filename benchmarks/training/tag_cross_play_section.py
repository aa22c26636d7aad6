"""Section of docs/learning.md about the training return and the cross-play of Tag, and its figure."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.hardware import provenance
from benchmarks.hardware.figure_file import save_figure
from benchmarks.training.goals import RANDOM, TRAINED
from trainers.evaluation.scripted_policies import SCRIPTED

__all__ = ["GAMES", "OPPONENTS", "PICTURE", "RESULT", "draw", "recorded", "section"]

RESULT = provenance.ROOT / "benchmarks" / "results" / "learning" / "tag-cross-play.json"
PICTURE = provenance.ROOT / "docs" / "tag_cross_play.png"
GAMES: Mapping[str, tuple[int, int, str]] = {
    "tag-continuous-joint": (24, 8, "return"),
    "tag-gridworld": (256, 11, "length"),
}
"""Episodes per matchup, number of checkpoints, and measure, by task."""
ENVIRONMENTS = {"tag-continuous": "TagContinuous-v0", "tag-gridworld": "TagGridworld-v0"}
"""Names of the tasks on the page."""
WORDS = {"return": "return of the side", "length": "steps of an episode"}
"""Axis label of each measure."""
OPPONENTS = {RANDOM: "random opponents", SCRIPTED: "scripted opponents", TRAINED: "the final opponents"}
"""Opponents of every checkpoint, with their label in the figure."""


def recorded() -> dict[str, Any]:
    """Return the recorded results by task."""
    return json.loads(RESULT.read_text()) if RESULT.exists() else {}


def _by_environment(results: Mapping[str, Any]) -> dict[str, Any]:
    return {ENVIRONMENTS.get(name, name): result for name, result in results.items()}


def section(results: Mapping[str, Any]) -> list[str]:
    """Return the lines of the section of docs/learning.md; none without results."""
    if not results:
        return []
    results = _by_environment(results)
    lines = [
        "## Training return and cross-play of Tag",
        "",
        "![training return and cross-play by environment steps](tag_cross_play.png)",
        "",
        "A tag adds to the return of one side and takes from that of the other. The training return of joint PPO "
        "therefore shows which side is ahead at a time, and not whether policies improve. The figure and the table "
        "compare it with cross-play: the policies of checkpoints of the run with seed 0, against opponents that do not "
        "change. Returns are summed over the agents of a side; intervals are 95 %. TagGridworld is judged by the "
        "steps of an episode: taggers want few and runners many, since nearly every episode ends with a tag.",
        "",
        "| task | side | evaluation | first checkpoint | last checkpoint | change |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, result in results.items():
        for side, points in result["cross_play"].items():
            curve = result["training"][side]
            first, last = (part[1] for part in (_near(curve, points[0]["steps"]), curve[-1]))
            lines.append(
                f"| {name} | {side} | training {result['of']} | {first:.1f} | {last:.1f} | {last - first:+.1f} |"
            )
            for opponent, label in OPPONENTS.items():
                (low, less), (high, more) = points[0][opponent], points[-1][opponent]
                numbers = f"{low:.1f} ± {less:.1f} | {high:.1f} ± {more:.1f} | {high - low:+.1f}"
                lines.append(f"| {name} | {side} | {result['of']} against {label} | {numbers} |")
    if opposite := _opposite(results):
        lines += ["", f"Training and cross-play against the final opponents change in opposite directions: {opposite}."]
    lines.append("")
    for name, result in results.items():
        machine, steps = result["machine"], next(iter(result["cross_play"].values()))
        lines += [
            f"{name}: checkpoints from step {steps[0]['steps']:,} to step {steps[-1]['steps']:,}, {result['episodes']} "
            f"episodes per matchup, sampled actions, by `{result['command']}`. Commit {result['commit']}, "
            f"{result['date']}, {machine['cpu'].split(' (')[0]}, cores: {machine['cores']}, torch {machine['torch']}.",
            "",
        ]
    return lines


def _opposite(results: Mapping[str, Any]) -> str:
    """Return the sides whose training and cross-play against the final opponents change in opposite directions."""
    names = []
    for name, result in results.items():
        for side, points in result["cross_play"].items():
            curve = result["training"][side]
            trained = curve[-1][1] - _near(curve, points[0]["steps"])[1]
            if trained * (points[-1][TRAINED][0] - points[0][TRAINED][0]) < 0:
                names.append(f"{side} of {name}")
    return ", ".join(names)


def _near(curve: Sequence[Sequence[float]], steps: int) -> Sequence[float]:
    return min(curve, key=lambda point: abs(point[0] - steps))


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Draw one row per task and one panel per side: training return and cross-play over environment steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.1 * max(1, len(results))), layout="constrained")
    drawn: dict[str, Any] = {}
    for row, (name, result) in enumerate(_by_environment(results).items()):
        for column, (side, points) in enumerate(result["cross_play"].items()):
            axes = figure.add_subplot(len(results), 2, 2 * row + column + 1)
            steps, values = zip(*result["training"][side], strict=True)
            (drawn["training (self-play)"],) = axes.plot(steps, values, color="black", lw=1.6)
            for index, (opponent, label) in enumerate(OPPONENTS.items()):
                means = [point[opponent][0] for point in points]
                halves = [point[opponent][1] for point in points]
                drawn[f"against {label}"] = axes.errorbar(
                    [point["steps"] for point in points], means, halves, color=f"C{index}", marker="o", ms=3, lw=1.1
                )
            axes.set_title(f"{name}: {side}, agents: {result['agents'][side]}", fontsize=9)
            axes.set_ylabel(WORDS[result["of"]], fontsize=8)
            axes.tick_params(labelsize=7)
            axes.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
            axes.grid(alpha=0.3)
    figure.legend(drawn.values(), drawn.keys(), loc="outside upper center", ncols=4, fontsize=8)
    figure.supxlabel("environment steps", fontsize=8)
    save_figure(figure, path, 80)
