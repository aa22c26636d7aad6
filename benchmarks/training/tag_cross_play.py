"""Measure training returns and cross-play of Tag's checkpoints, for a section of docs/learning.md and its figure.

python -m benchmarks.training.tag_cross_play            # evaluate the checkpoints of seed 0, then draw
python -m benchmarks.training.tag_cross_play --write    # only the figure, from recorded results

The first needs finished runs of the tasks in out/learning/, see `benchmarks.training.train_tasks`.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.hardware import provenance
from benchmarks.training.goals import Matches, checkpoints_of
from benchmarks.training.tag_cross_play_section import GAMES, OPPONENTS, PICTURE, RESULT, draw, recorded
from benchmarks.training.task_runs import options_of, settings_of
from benchmarks.training.tasks.all_tasks import TASKS
from benchmarks.training.train_tasks import finished
from trainers.storage.learning_curves import read_rows

__all__ = ["cross_play_by_step", "training_curves"]

SEED = 271_828
"""Seed of the matchups, different from the seeds of trainings and of their evaluation."""
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
    chosen = sorted({round(index * (len(steps) - 1) / max(count - 1, 1)) for index in range(count)})
    curves: dict[str, list[dict[str, Any]]] = {side: [] for side in matches.sides}
    for at in (steps[index] for index in chosen):
        for side, points in curves.items():
            source = f"checkpoint {at / matches.saved.steps!r}"
            points.append({"steps": at})
            for opponent in OPPONENTS:
                players = {name: source if name == side else opponent for name in matches.sides}
                points[-1][opponent] = matches.play(players, False)[side if of == "return" else of]
            print(run.parent.name, side, json.dumps(points[-1]), flush=True)
    return curves


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
    task = next(task for task in TASKS if task.name == name)
    run = finished(task, 0, settings_of(task, options_of(task, 0)))
    if run is None:
        raise SystemExit(
            f"no finished run with the present settings: python -m benchmarks.training.train_tasks --only {name}"
        )
    episodes, count, of = GAMES[name]
    agents = {side: len(rows) for side, rows in Matches(run, 1, SEED).core.groups.items()}
    about = {"options": task.options, "command": "python -m benchmarks.training.tag_cross_play", "episodes": episodes}
    about |= {"commit": provenance.commit(), "date": date.today().isoformat(), "machine": provenance.machine()}
    training, cross_play = training_curves(run, agents, of), cross_play_by_step(run, episodes, count, of)
    return {**about, "agents": agents, "of": of, "training": training, "cross_play": cross_play}


def main(argv: Sequence[str]) -> None:
    """Measure the selected tasks, record the results and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=GAMES, default=list(GAMES), help="these tasks")
    parser.add_argument("--write", action="store_true", help="nothing but the figure, from what is recorded")
    args = parser.parse_args(argv)
    for name in args.only if not args.write else ():
        results = recorded() | {name: measure(name)}
        lines = [f"{json.dumps(game)}: {json.dumps(results[game])}" for game in GAMES if game in results]
        RESULT.write_text("{\n" + ",\n".join(lines) + "\n}\n")  # a line per task
    draw(recorded(), PICTURE)


if __name__ == "__main__":
    main(sys.argv[1:])
