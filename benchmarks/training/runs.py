"""Whole trainings by `gpu-envs train` in separate processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.hardware.provenance import ROOT
from trainers.storage.learning_curves import read_rows


@dataclass(frozen=True)
class TimedTraining:
    """A training of the command line."""

    options: tuple[str, ...]
    """Options of `gpu-envs train`, without --engine, --seed and --run-dir."""
    to_goal: bool
    """Measure from process start until the goal is printed; otherwise the seconds of rollouts and updates."""


UNTIL_RETURN = TimedTraining(("CartPole-v1", "--until-return", "475", "--no-video"), to_goal=True)
MAKE_TRAIN = TimedTraining(("TagContinuous-v0", "--no-video"), to_goal=False)
SEVERAL = TimedTraining(("CartPole-v1", "--engine", "kernel", "--no-video", "--total-steps", "100000"), to_goal=False)
NUM_SEEDS = 10
"""Seeds of `SEVERAL` that are trained at once."""
WARM_UP = ("--total-steps", "3200")
"""Options of the run that compiles the kernels."""


@dataclass(frozen=True)
class RunTime:
    """Time and result of a training."""

    seconds: float
    result: str
    """Steps to the goal, or the returns of the policies against each other."""


def fill_cache(run: TimedTraining) -> None:
    """Compile the kernels of a training."""
    with tempfile.TemporaryDirectory() as folder:
        _train([*run.options, *WARM_UP, "--engine", "kernel"], Path(folder) / "run")


def separate_and_together(run: TimedTraining = SEVERAL, count: int = NUM_SEEDS) -> tuple[float, float]:
    """Return the seconds of runs with `count` seeds, whole processes: one after the other, and all in one process."""
    seconds = []
    for options in ([["--seed", str(seed)] for seed in range(count)], [["--num-seeds", str(count)]]):
        begin = time.perf_counter()
        for number, seed_options in enumerate(options):
            with tempfile.TemporaryDirectory() as folder:
                _train([*run.options, *seed_options], Path(folder) / f"run{number}")
        seconds.append(time.perf_counter() - begin)
    return seconds[0], seconds[1]


def alternate(run: TimedTraining, engines: Sequence[str], seeds: int) -> dict[str, list[RunTime]]:
    """Return the times of a number of seeds by engine; the engines take turns."""
    times: dict[str, list[RunTime]] = {engine: [] for engine in engines}
    for seed in range(seeds):
        for engine in engines if seed % 2 else reversed(engines):
            times[engine].append(measure(run, engine, seed))
    return times


def measure(run: TimedTraining, engine: str, seed: int) -> RunTime:
    """Train once.

    Raises:
        RuntimeError: The process failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        options = [*run.options, "--engine", engine, "--seed", str(seed)]
        seconds, line = _train(options, folder)
        if run.to_goal:
            return RunTime(seconds, re.split(r", [\d.]+ s from", line)[0])
        matchups = json.loads((folder / "cross_play.json").read_text())["matchups"]
        seconds = float(read_rows(folder / "metrics.csv")[-1]["seconds"])
        return RunTime(
            seconds, ", ".join(_returns(matchup) for matchup in matchups if "trained" in matchup["policies"].values())
        )


def _returns(matchup: dict[str, Any]) -> str:
    """Return the mean returns of a matchup by group, each with whether its policy is trained."""
    means = {group: outcome["mean"] for group, outcome in matchup["returns"].items()}
    names = [name for name, kind in matchup["policies"].items() if kind == "trained"]
    return f"{' and '.join(names)} trained: {' / '.join(f'{mean:.1f}' for mean in means.values())}"


def _train(options: Sequence[str], folder: Path) -> tuple[float, str]:
    """Run `gpu-envs train`; return the seconds until the line with the goal, and the line; "" without a goal."""
    command = [sys.executable, "-m", "gpu_envs", "train", *options, "--run-dir", str(folder)]
    begin, seconds, verdict, lines = time.perf_counter(), 0.0, "", []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            lines.append(line)
            if re.match(r"(not )?reached", line):
                seconds, verdict = time.perf_counter() - begin, line.strip()
    if process.returncode not in (0, 1):  # 1: the goal was not reached
        raise RuntimeError(f"{' '.join(command)} failed:\n{''.join(lines[-20:])}")
    return seconds, verdict
