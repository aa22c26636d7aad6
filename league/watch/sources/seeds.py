"""Source of the viewer for several seeds of one training: the mean of their scores, and the folders of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from league.watch.sources.base import ExperimentSnapshot
from trainers.experiments import statistics
from trainers.experiments.run_comparison import RecordedRun, read_run
from trainers.storage import checkpoint, folder_lock, run_folder
from trainers.storage.learning_curves import SCORE


class SeedsRun:
    """Several seeds of one training, see `league.watch.sources.base.RunSource`."""

    def __init__(self, path: Path) -> None:
        """Show the runs in a folder."""
        self.path: Path = path
        self._complete, self._total = 0, 0  # numbers of runs

    def files(self) -> Iterator[Path]:
        """Return the record of the seeds and the files of their runs."""
        yield self.path / checkpoint.SEEDS
        for run in sorted(self.path.glob("seed-*")):
            yield from (run / name for name in (checkpoint.CONFIG, "metrics.csv"))

    def writing(self) -> bool:
        """Return whether a process trains the seeds."""
        return folder_lock.is_held(self.path)

    def progress(self) -> tuple[int, int, bool]:
        """Return the number of runs that have ended, the number of all runs, and False."""
        return self._complete, self._total, False

    def read(self) -> ExperimentSnapshot:
        """Read all runs: an experiment of one algorithm on one task."""
        record = run_folder.read_seeds(self.path)
        runs = [read_run(path) for path in run_folder.seed_runs(self.path)]
        config, score = runs[0].config, _score_of(runs)
        curves = [curve for run in runs if (curve := _curve_of(run, score))]
        final = [list(curve.values())[-1] for run in runs if run.has_ended() and (curve := _curve_of(run, score))]
        entries = [
            {
                "name": run.path.name,
                "seed": run.config.seed,
                "share": run.steps / run.config.total_steps,
                "complete": run.has_ended(),
            }
            for run in runs
        ]
        self._complete, self._total = sum(entry["complete"] for entry in entries), record.num_seeds
        cell = {
            "task": config.env_id,
            "algorithm": config.algorithm,
            "curve": statistics.mean_curve(curves),
            "final": statistics.estimate(statistics.mean, {"": np.array(final)}) if final else None,
            "runs": entries,
        }
        run = {
            "kind": "seeds",
            "env_id": config.env_id,
            "env": config.env,
            "algorithm": config.algorithm,
            "config": record.config,
        }
        tasks = {config.env_id: {"score": score, "threshold": None}}
        folders = {entry["name"]: self.path / entry["name"] for entry in entries}
        return ExperimentSnapshot({"run": run, "experiment": {"tasks": tasks, "cells": [cell]}}, {}, folders)


def _score_of(runs: Sequence[RecordedRun]) -> str:
    """Return the column of the score of evaluations, or without evaluations the first column of returns in training."""
    columns = [name for run in runs for row in run.rows for name, cell in row.items() if cell]
    returns = (name for name in columns if name.endswith("/episode_return_mean"))
    return SCORE if SCORE in columns else next(returns, SCORE)


def _curve_of(run: RecordedRun, score: str) -> dict[int, float]:
    """Return the values in a column by environment steps."""
    return {int(row["env_steps"]): float(row[score]) for row in run.rows if row.get(score)}
