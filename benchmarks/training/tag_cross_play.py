"""Measure training returns and cross-play of Tag's checkpoints, for a section of docs/learning.md and its figure.

python -m benchmarks.training.tag_cross_play            # evaluate the checkpoints of seed 0, then draw
python -m benchmarks.training.tag_cross_play --write    # only the figure, from recorded results

The first needs finished runs of the tasks in out/learning/, see `benchmarks.training.train_tasks`.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.hardware import provenance
from benchmarks.training.goals import RANDOM, TRAINED, Matches, checkpoints_of
from benchmarks.training.tasks import TASKS
from trainers.evaluation.scripted_policies import SCRIPTED
from trainers.storage.learning_curves import read_rows

__all__ = ["GAMES", "OPPONENTS", "cross_play_by_step", "draw", "recorded", "section", "training_curves"]

RESULT = provenance.ROOT / "benchmarks" / "results" / "learning" / "tag-cross-play.json"
PICTURE = provenance.ROOT / "docs" / "tag_cross_play.png"
GAMES: Mapping[str, tuple[int, int, str]] = {"tag-continuous": (24, 8, "return"), "tag-gridworld": (256, 11, "length")}
"""Episodes per matchup, number of checkpoints, and measure, by task."""
WORDS = {"return": "return of the side", "length": "steps of an episode"}
"""Axis label of each measure."""
OPPONENTS = {RANDOM: "random opponents", SCRIPTED: "scripted opponents", TRAINED: "the final opponents"}
"""Opponents of every checkpoint, with their label in the figure."""
SEED = 271_828
"""Seed of the matchups, different from those of trainings and of their evaluation."""
POINTS = 60
"""Points of a training curve, each the mean over a part of the run."""


def cross_play_by_step(run: Path, episodes: int, count: int, of: str) -> dict[str, list[dict[str, Any]]]:
    """Evaluate each side of a run's checkpoints against random, scripted and the final opponents.

    Args:
        run: Run folder of a two-sided game that has kept its checkpoints.
        episodes: Episodes per matchup.
        count: Largest number of checkpoints, evenly spaced from the first to the last.
        of: "return", summed over the agents of the side, or "length" [steps].

    Returns:
        By side, one entry per checkpoint: environment "steps", and the measure by name of the opponents, as mean and
        half-width of the 95 % interval.
    """
    matches = Matches(run, episodes, SEED)
    steps = [at for at, _ in checkpoints_of(run)]
    chosen = sorted({round(each * (len(steps) - 1) / max(count - 1, 1)) for each in range(count)})
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in matches.sides}
    for at in (steps[each] for each in chosen):
        for side, points in found.items():
            own = f"checkpoint {at / matches.saved.steps!r}"
            points.append({"steps": at})
            for opponent in OPPONENTS:
                players = {name: own if name == side else opponent for name in matches.sides}
                points[-1][opponent] = matches.play(players, False)[side if of == "return" else of]
            print(run.parent.name, side, json.dumps(points[-1]), flush=True)
    return found


def training_curves(run: Path, agents: Mapping[str, int], of: str) -> dict[str, list[list[float]]]:
    """Return a measure of the training's own episodes by side: environment steps and mean of a part of the run.

    Args:
        run: Run folder.
        agents: Number of agents by side.
        of: "return", summed over the agents of the side, or "length" [steps].
    """
    rows, curves = read_rows(run / "metrics.csv"), {}
    for side, count in agents.items():
        column = f"{side}/episode_{of}_mean"
        points = [
            (int(row["env_steps"]), float(row[column]) * (count if of == "return" else 1))
            for row in rows
            if row[column]
        ]
        size = max(1, -(-len(points) // POINTS))
        parts = [points[start : start + size] for start in range(0, len(points), size)]
        curves[side] = [[part[-1][0], sum(value for _, value in part) / len(part)] for part in parts]
    return curves


def measure(name: str) -> dict[str, Any]:
    """Measure one task's run of seed 0; return the entry of the result file."""
    from benchmarks.training.train_tasks import finished

    task = next(task for task in TASKS if task.name == name)
    run = finished(task, 0, [*shlex.split(task.options), "--seed", "0", "--no-video"])
    if run is None:
        raise SystemExit(f"no finished run: python -m benchmarks.training.train_tasks --only {name}")
    episodes, count, of = GAMES[name]
    agents = {side: len(rows) for side, rows in Matches(run, 1, SEED).core.groups.items()}
    about = {"options": task.options, "command": "python -m benchmarks.training.tag_cross_play", "episodes": episodes}
    about |= {"commit": provenance.commit(), "date": date.today().isoformat(), "machine": provenance.machine()}
    training, cross_play = training_curves(run, agents, of), cross_play_by_step(run, episodes, count, of)
    return {**about, "agents": agents, "of": of, "training": training, "cross_play": cross_play}


def recorded() -> dict[str, Any]:
    """Return the recorded results by task."""
    return json.loads(RESULT.read_text()) if RESULT.exists() else {}


def section(results: Mapping[str, Any]) -> list[str]:
    """Return the lines of the section of docs/learning.md; none without results."""
    if not results:
        return []
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
    found = []
    for name, result in results.items():
        for side, points in result["cross_play"].items():
            curve = result["training"][side]
            trained = curve[-1][1] - _near(curve, points[0]["steps"])[1]
            if trained * (points[-1][TRAINED][0] - points[0][TRAINED][0]) < 0:
                found.append(f"{side} of {name}")
    return ", ".join(found)


def _near(curve: Sequence[Sequence[float]], steps: int) -> Sequence[float]:
    return min(curve, key=lambda point: abs(point[0] - steps))


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Draw one row per task and one panel per side: training return and cross-play over environment steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.1 * max(1, len(results))), layout="constrained")
    drawn: dict[str, Any] = {}
    for row, (name, result) in enumerate(results.items()):
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
    figure.savefig(path, dpi=80)


def main(argv: Sequence[str]) -> None:
    """Measure the selected tasks, record the results and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=GAMES, default=list(GAMES), help="these tasks")
    parser.add_argument("--write", action="store_true", help="nothing but the figure, from what is recorded")
    args = parser.parse_args(argv)
    for name in args.only if not args.write else ():
        results = recorded() | {name: measure(name)}
        lines = [f"{json.dumps(each)}: {json.dumps(results[each])}" for each in GAMES if each in results]
        RESULT.write_text("{\n" + ",\n".join(lines) + "\n}\n")  # a line per task
    draw(recorded(), PICTURE)


if __name__ == "__main__":
    main(sys.argv[1:])
