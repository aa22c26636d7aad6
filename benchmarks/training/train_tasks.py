"""Train and evaluate the tasks of `benchmarks/training/tasks.yaml` and write docs/learning.md and the model zoo.

python -m benchmarks.training.train_tasks                       # All tasks, then the page.
python -m benchmarks.training.train_tasks --only simple-tag-ppo # Selected tasks; the others are unchanged.
python -m benchmarks.training.train_tasks --evaluate            # Train only what has no run with these settings.
python -m benchmarks.training.train_tasks --write               # Only the page and its figure, from recorded results.
"""

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.hardware import provenance
from benchmarks.training import baselines
from benchmarks.training.goals import evaluate_goals
from benchmarks.training.learning_page import write
from benchmarks.training.tasks import BASELINES, TASKS, Goal, TrainingTask
from league.storage.run_store import RunStore
from trainers.base.agent_group import agent_rows_of
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows

OUT = provenance.ROOT / "out" / "learning"
RESULTS = provenance.ROOT / "benchmarks" / "results" / "learning"
JUDGES = 577_215
"""Seed of the evaluation, different from all training seeds."""
FINISHED = "finished.json"
"""File in the folder of a finished run: its settings, exit status, seconds and `OF_TRAINING`."""
OF_TRAINING = ("commit", "date", "machine")
"""Entries that tell where a training ran. It may be evaluated later, and elsewhere."""
POINTS = 50
"""Maximum number of points of a curve."""
_COMMAND = str(Path(sys.executable).with_name("gpu-envs"))
LEAGUE, POLICIES = "league", "policies"
"""Folders of a league's run and of its exported policies, within the folder of a task's run."""


def options_of(task: TrainingTask, seed: int) -> list[str]:
    """Return the options of a run, without its folder."""
    return [*shlex.split(task.options), "--seed", str(seed), *(["--no-video"] if task.command == "train" else [])]


def settings_of(task: TrainingTask, options: Sequence[str]) -> str:
    """Return all settings of a run as YAML, its preset's included.

    Raises:
        ValueError: The command refused the options.
    """
    words = [_COMMAND, *task.command.split(), *options, "--print-config"]
    run = subprocess.run(words, check=False, cwd=provenance.ROOT, capture_output=True, text=True)
    if run.returncode:
        raise ValueError(f"{task.name}: {run.stderr.strip()}")
    return run.stdout


def run_training(task: TrainingTask, options: Sequence[str], out: Path, threads: str | None) -> tuple[int, str]:
    """Run the command of a task; return its exit code and its output.

    Args:
        task: The task.
        options: Options of the command.
        out: Folder of the run.
        threads: OMP_NUM_THREADS of the run; None: torch's own choice.
    """
    if task.command == "train":
        return _run(["train", *options, "--run-dir", str(out)], threads)
    out.mkdir(parents=True, exist_ok=True)
    code, text = _run(["league", "train", *options, "--run-dir", str(out / LEAGUE)], threads)
    if code:
        return code, text
    code, more = _run(["league", "export", str(out / LEAGUE), "--output", str(out / POLICIES), "--all"], threads)
    return code, text + more


def _run(words: Sequence[str], threads: str | None) -> tuple[int, str]:
    """Run a command of gpu-envs."""
    run = subprocess.run(
        [_COMMAND, *words],
        check=False,
        cwd=provenance.ROOT,
        env={**os.environ, **({"OMP_NUM_THREADS": threads} if threads else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return run.returncode, run.stdout


def policies_in(task: TrainingTask, out: Path) -> Path:
    """Return the folder of the checkpoints of a task's run."""
    return out if task.command == "train" else out / POLICIES


def progress_of(task: TrainingTask, out: Path) -> dict[str, Any]:
    """Return the environment "steps" and "seconds" of a run, and its "curve": steps and return per agent by group."""
    if task.command == "league train":
        with RunStore.open(out / LEAGUE, write=False) as store:
            return _progress_of_league(store)
    rows = read_rows(out / "metrics.csv")
    curve = {}
    for column in rows[0]:
        if column.endswith("/episode_return_mean"):
            points = [[int(row["env_steps"]), float(row[column])] for row in rows if row[column]]
            stride = max(1, math.ceil(len(points) / POINTS))
            curve[column.rpartition("/")[0]] = [points[0], *points[stride::stride]] if points else []
    return {"steps": int(rows[-1]["env_steps"]), "seconds": float(rows[-1]["seconds"]), "curve": curve}


def _progress_of_league(store: RunStore) -> dict[str, Any]:
    """Return the same of a league with one main player per role, whose groups share their worlds."""
    core, curve, seconds, steps = store.game.core(1), dict[str, list[list[float]]](), 0.0, 0
    for row in store.iterations().values():
        if not row.get("steps"):
            continue
        seconds, steps = seconds + float(row["seconds"]), steps + max(row["steps"].values())
        for seat in store.game.seats:
            player = next(name for name in row["return"] if f"_{seat.role}_" in name)
            if row["return"][player] is not None:  # no episode has ended
                agents = len(agent_rows_of(core, seat.members))
                curve.setdefault(seat.name, []).append([steps, row["return"][player] / agents])
    return {"steps": steps, "seconds": seconds, "curve": curve}


def learn(task: TrainingTask, seed: int, threads: str | None, rerun: bool = True) -> dict[str, Any]:
    """Run and evaluate one seed of a task.

    Args:
        task: The task.
        seed: Seed of the run.
        threads: OMP_NUM_THREADS of the run; None: torch's own choice.
        rerun: Run it even if a finished run with the same settings exists; otherwise only evaluate that one.
    """
    options = options_of(task, seed)
    settings = settings_of(task, options)
    done = None if rerun else finished(task, seed, settings)
    out = done or OUT / task.name / f"{seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    if done is None:
        print(f"{task.name}, seed {seed}: training", flush=True)
        commit, begin = provenance.commit(), time.perf_counter()
        code, text = run_training(task, options, out, threads)
        about = {"settings": settings, "exit": code, "wall": time.perf_counter() - begin, "commit": commit}
        about |= {"date": date.today().isoformat(), "machine": provenance.machine()}
        (out / "output.txt").write_text(text)
        (out / FINISHED).write_text(json.dumps(about))
    about = json.loads((out / FINISHED).read_text())
    result: dict[str, Any] = {"seed": seed} | {name: about[name] for name in ("exit", "wall", *OF_TRAINING)}
    result |= progress_of(task, out) | {"checkpoint": str(checkpoint.find(policies_in(task, out)))}
    return result | evaluate_goals(task.goals, policies_in(task, out), task.episodes, JUDGES, task.judged_with)


def finished(task: TrainingTask, seed: int, settings: str) -> Path | None:
    """Return the latest finished run of a seed with these settings; None if there is none."""
    for file in sorted((OUT / task.name).glob(f"{seed}-*/{FINISHED}"), reverse=True):
        about = json.loads(file.read_text())
        if about.get("settings") == settings and all(name in about for name in OF_TRAINING):
            return file.parent
    return None


def verdict(goal: Goal, index: int, runs: Sequence[dict[str, Any]], peers: dict[str, Any]) -> dict[str, Any]:
    """Return value, interval bound and threshold of each seed, and whether all seeds reach it."""
    values, ends, bounds = [], [], []
    for run in runs:
        mean, half = run["reached"][index] or (run["wall"] if run["exit"] == 0 else math.inf, 0.0)
        mean, half = mean / goal.unit, half / goal.unit
        values.append(mean)
        ends.append(mean + half if goal.below else mean - half)
        bound = goal.bound
        if isinstance(bound, str) and baselines.baseline_of(bound):
            bound = baselines.bound_of(bound, peers)
        elif isinstance(bound, str):
            mean, half = run["others"][goal.reference][goal.measure]
            bound = (mean - half if goal.below else mean + half) / goal.unit
        bounds.append(bound)
    met: bool | None = None
    if bounds[0] is not None:
        pairs = zip(ends, bounds, strict=True)
        met = all(end <= bound if goal.below else end >= bound for end, bound in pairs)
        met &= all(run["exit"] == 0 for run in runs)
    about: dict[str, Any] = {"of": goal.of, "playing": goal.playing, "against": goal.against}
    about |= {"unit": goal.unit} if goal.unit != 1.0 else {}
    return {**about, "values": values, "ends": ends, "bounds": bounds, "met": met}


def keep(task: TrainingTask, run: dict[str, Any]) -> None:
    """Store the policies of a run in the model zoo."""
    from trainers.storage import model_zoo

    saved = checkpoint.load(Path(run["checkpoint"]))
    words = f"gpu-envs {task.command} {task.options} --seed {run['seed']}"
    goals = [
        {
            "of": goal.of,
            "reached": reached,
            "playing": goal.playing,
            "against": goal.against,
            "greedy": goal.greedy,
        }
        for goal, reached in zip(task.goals, run["reached"], strict=True)
        if reached is not None
    ]
    about = {
        "command": words,
        "commit": run["commit"],
        "episodes": task.episodes,
        "goals": goals,
        "others": run["others"],
    }
    model_zoo.put(task.name, saved, about)


def main(argv: Sequence[str]) -> None:
    """Run the selected tasks and record the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [task.name for task in TASKS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these tasks")
    parser.add_argument("--write", action="store_true", help="nothing but the page, from what is recorded")
    parser.add_argument(
        "--evaluate",
        action="store_true",
        help="train only seeds without a finished run with the present settings in out/",
    )
    parser.add_argument("--num-threads", help="OMP_NUM_THREADS of the runs, if not torch's own choice")
    args = parser.parse_args(argv)
    for task in TASKS if not args.write else ():
        if task.name not in args.only:
            continue
        names = {name for goal in task.goals if (name := baselines.baseline_of(goal.bound))}
        records = recorded()
        for name in names:
            if records.get(baselines.file_of(name), {}).get("task") != BASELINES[name]:
                raise SystemExit(f"{name}: no recorded result for its arguments in tasks.yaml; run its program again")
        peers = {name: records[baselines.file_of(name)] for name in names}
        runs = []
        for seed in range(task.seeds):
            runs.append(learn(task, seed, args.num_threads, rerun=not args.evaluate))
            summary = {key: value for key, value in runs[-1].items() if key != "curve"}
            print(task.name, json.dumps(summary), flush=True)
        if task.zoo:
            keep(task, runs[0])
        goals = [verdict(goal, index, runs, peers) for index, goal in enumerate(task.goals)]
        for goal in goals:
            print(task.name, json.dumps(goal), flush=True)
        about = {"options": task.options, **{name: runs[0][name] for name in OF_TRAINING}}
        if args.evaluate:
            about["evaluated"] = {"commit": provenance.commit(), "date": date.today().isoformat()}
        for run in runs:
            for name in ("checkpoint", *OF_TRAINING):
                del run[name]
        record(task.name, {"runs": runs, "goals": goals, **about})
    write(recorded(), TASKS)


def record(name: str, result: dict[str, Any]) -> None:
    """Replace the recorded results of a task; an interrupted call changes nothing."""
    temporary = RESULTS / f".{name}.tmp"
    temporary.write_text(json.dumps(result) + "\n", encoding="utf-8")
    temporary.replace(RESULTS / f"{name}.json")


def recorded() -> dict[str, Any]:
    """Return all recorded results by task, and the baselines' results by name of their record."""
    names = [*map(baselines.file_of, BASELINES), *(task.name for task in TASKS)]
    files = {name: RESULTS / f"{name}.json" for name in names}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


if __name__ == "__main__":
    main(sys.argv[1:])
