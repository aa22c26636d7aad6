"""Source of the viewer for experiments: evaluations of all cells, and the folders of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from league.watch.sources.base import ExperimentSnapshot, stat_files
from trainers.experiments import statistics
from trainers.experiments.experiment import Experiment
from trainers.experiments.grid import CROSS_PLAY, SETTINGS, Cell
from trainers.experiments.part import FINAL, TRAINED
from trainers.storage import checkpoint, folder_lock
from trainers.storage.config_yaml import read_config
from trainers.storage.run_folder import EXPERIMENT, run_kind

FILES = ("config.json", "metrics.csv", checkpoint.LEAGUE, TRAINED, FINAL, f"{CROSS_PLAY}.json")
"""Files of a run that show how far it is."""


class ExperimentRun:
    """Experiment, see `league.watch.sources.base.RunSource`."""

    def __init__(self, path: Path) -> None:
        """Read the file of the experiment in a folder.

        Raises:
            ConfigError: The file is invalid, or names a module that is not imported.
        """
        self.path: Path = path
        self._complete, self._total = 0, 0  # numbers of runs
        self._open()

    def _open(self) -> None:
        stamp = stat_files([self.path / EXPERIMENT])
        self.experiment: Experiment = Experiment(self.path)
        self.config: dict[str, Any] = dict(read_config(self.path / EXPERIMENT))
        self._cells: dict[str, tuple[list[tuple[str, int, int]], dict[str, Any]]] = {}  # with the state of their files
        self._stamp = stamp  # last: a file that is damaged is read again

    def files(self) -> Iterator[Path]:
        """Return the file of the experiment and the files of its cells."""
        yield self.path / EXPERIMENT
        for cell in self.experiment.grid.cells:
            yield from self._files_of(cell)

    def _files_of(self, cell: Cell) -> Iterator[Path]:
        yield self.path / cell.path / SETTINGS
        for seed in self.experiment.grid.seeds:
            yield from (self.path / cell.run_of(seed) / name for name in FILES)

    def writing(self) -> bool:
        """Return whether a process runs the experiment."""
        return folder_lock.is_held(self.path)

    def progress(self) -> tuple[int, int, bool]:
        """Return completed runs, all runs, and False."""
        return self._complete, self._total, False

    def read(self) -> ExperimentSnapshot:
        """Read the cells that have changed; the file too, which may have more cells and seeds."""
        if stat_files([self.path / EXPERIMENT]) != self._stamp:
            self._open()
        grid = self.experiment.grid
        for cell in grid.cells:
            stamp = stat_files(self._files_of(cell))
            if str(cell) not in self._cells or self._cells[str(cell)][0] != stamp:
                self._cells[str(cell)] = stamp, self._read_cell(cell)
        run = {
            "kind": "experiment",
            "env_id": ", ".join(dict.fromkeys(str(cell.settings.get("env_id")) for cell in grid.cells)),
            "env": {},
            "algorithm": ", ".join(grid.algorithms),
            "config": self.config,
        }
        tasks = {name: {"score": task.score, "threshold": task.threshold} for name, task in grid.tasks.items()}
        cells = [self._cells[str(cell)][1] for cell in grid.cells]
        cells += [
            {"task": task, "algorithm": name, "curve": [], "final": _mean(scores), "runs": []}
            for name, by_task in grid.baselines.items()
            for task, scores in by_task.items()
        ]
        runs = {entry["name"]: entry for cell in cells for entry in cell["runs"]}
        self._complete, self._total = sum(entry["complete"] for entry in runs.values()), len(runs)
        answers = {"run": run, "experiment": {"tasks": tasks, "cells": cells}}
        return ExperimentSnapshot(answers, {}, {name: self.path / name for name in runs})

    def _read_cell(self, cell: Cell) -> dict[str, Any]:
        experiment, score = self.experiment, self.experiment.grid.tasks[cell.task].score
        curves, final, runs = [], [], []
        for seed in experiment.grid.seeds:
            rows = [row for row in experiment.evaluations_of(cell, seed) if row["metric"] == score]
            curve = {row["env_steps"]: row["value"] for row in rows if not row["final"]}
            curves += [curve] if curve else []
            final += [row["value"] for row in rows if row["final"] and not row["opponents"]]
            name = cell.run_of(seed)
            share = experiment.steps_of(cell, seed) / max(cell.total_steps, 1)
            share = share if run_kind(self.path / name) else None
            complete = experiment.is_complete(cell, seed)
            runs.append({"name": name.as_posix(), "seed": seed, "share": share, "complete": complete})
        return {
            "task": cell.task,
            "algorithm": cell.algorithm,
            "curve": statistics.mean_curve(curves),
            "final": _mean(final) if final else None,
            "runs": runs,
        }


def _mean(scores: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of scores and its interval."""
    return statistics.estimate(statistics.mean, {"": np.array(scores)})
