"""Runs of training tasks: commands, folders and learning curves of `gpu-envs train` and `gpu-envs league train`."""

import math
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.hardware import provenance
from benchmarks.training.tasks.training_task import TrainingTask
from league.storage.run_store import RunStore
from trainers.base.agent_group import agent_rows_of
from trainers.storage.learning_curves import read_rows

__all__ = ["options_of", "policies_in", "progress_of", "run_training", "settings_of"]

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
