"""A comparison of trainings: groups of runs that differ only in their seed, with the tables and figures of a report."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError
from gpu_envs.utils.suggestions import unknown_name_message
from gpu_envs.utils.terminal import shell_command
from trainers.base.serialization import read_json
from trainers.config.train_config import TrainConfig
from trainers.experiments.grid import Cell, EvaluationProtocol, ExperimentTask, Grid
from trainers.experiments.report import ExperimentReport, frame_of, texts_of
from trainers.storage import checkpoint, folder_lock, run_folder
from trainers.storage.config_yaml import flat_settings
from trainers.storage.learning_curves import COUNTERS, read_rows

WITHOUT_EFFECT = ("seed", "num_threads", "env_workers", "logger", "callback", "keep_last_checkpoints")
"""Settings that may differ within a group: the seed, and those without an effect on what is learned."""
GROUP_NAME = re.compile(r"[\w .,+()-]+")
"""Form of the names of groups, which are in LaTeX tables."""


@dataclass(frozen=True)
class RecordedRun:
    """A training with its metrics."""

    path: Path
    """Folder of the run."""
    config: TrainConfig
    """Its configuration."""
    rows: list[dict[str, str]]
    """Its metrics, see `trainers.storage.learning_curves.read_rows`."""

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that the runs of a group share, by dotted name."""
        settings = {**dataclasses.asdict(self.config), "device": self.config.device.partition(":")[0]}
        return dict(flat_settings({name: value for name, value in settings.items() if name not in WITHOUT_EFFECT}))

    @property
    def steps(self) -> int:
        """Environment steps so far."""
        return int(self.rows[-1]["env_steps"]) if self.rows else 0

    def is_running(self) -> bool:
        """Return whether a process trains it, or other seeds of its folder."""
        return any(folder_lock.is_held(folder) for folder in (self.path, self.path.parent))

    def has_ended(self) -> bool:
        """Return whether all steps are taken, or the run may have ended early by its rules."""
        config = self.config
        may_end_early = config.until_return is not None or config.patience > 0 or config.max_seconds is not None
        return self.steps >= config.total_steps or (may_end_early and self.steps > 0 and not self.is_running())

    def scores(self, column: str) -> list[tuple[int, float, float]]:
        """Return steps, seconds and value of every row that has a value in a column.

        Raises:
            ConfigError: No row has one.
        """
        scores = [
            (int(row["env_steps"]), float(row.get("seconds") or "nan"), float(row[column]))
            for row in self.rows
            if row.get(column)
        ]
        if scores:
            return scores
        names = [name for name in dict.fromkeys(name for row in self.rows for name in row) if name not in COUNTERS]
        if column.startswith("eval/") and not any(name.startswith("eval/") for name in names):
            raise ConfigError(
                f"{self.path}: expected evaluations, got none; train with --eval-episodes 64, or compare a column of "
                "the training, such as --score "
                + next((name for name in names if name.endswith("/episode_return_mean")), "GROUP/episode_return_mean")
            )
        raise ConfigError(f"{self.path}: {unknown_name_message('column', column, names)}")


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in their seed."""

    name: str
    """Name of the group."""
    runs: list[RecordedRun]
    """Its runs."""


class RunReport(ExperimentReport):
    """Tables and figures of groups of runs, in the form of an experiment with one task."""

    def __init__(self, groups: Sequence[RunGroup], score: str, out: Path) -> None:
        """Collect the scores.

        Args:
            groups: Groups of runs of one environment.
            score: Column of metrics.csv to compare. The final score of a run is its last value.
            out: Folder of the report.

        Raises:
            ConfigError: A run has no value in the column.
            MissingExtraError: pandas is not installed.
        """
        self.groups: Sequence[RunGroup] = groups
        task = groups[0].runs[0].config.env_id
        rows = []
        for group in groups:
            for run in group.runs:
                head = {
                    "task": task,
                    "algorithm": group.name,
                    "seed": run.config.seed,
                    "opponents": "",
                    "metric": score,
                }
                names = ("env_steps", "seconds", "value")
                curve = [dict(zip(names, point, strict=True)) for point in run.scores(score)]
                rows += [{**head, **point, "final": 0} for point in curve] + [{**head, **curve[-1], "final": 1}]
        grid = Grid(
            tasks={task: ExperimentTask(score=score)},
            cells=tuple(Cell(task, group.name, "train", dataclasses.asdict(group.runs[0].config)) for group in groups),
            seeds=range(0),
            evaluation=EvaluationProtocol(),
            baselines={},
            text="",
        )
        super().__init__(grid, frame_of(rows), out)

    def protocol(self) -> str:
        """Return what the scores are, and the runs of every group."""
        score = next(iter(self.grid.tasks.values())).score
        runs = "; ".join(f"{group.name}: {', '.join(str(run.path) for run in group.runs)}" for group in self.groups)
        return f"Scores are the last values of {score} in metrics.csv. Runs: {runs}."

    def final_table(self) -> list[list[str]]:
        """Return the header and the rows of the table of final scores for a terminal, after `write`."""
        first = self.groups[0].name
        text = texts_of(self.tables["tasks"]).rename(columns={"algorithm": "group", f"p against {first}": "p"})
        columns = [name for name in ("group", "runs", "mean", "IQM", "median", "p") if name in text]
        return [columns, *text[columns].to_numpy().tolist()]

    def notes(self) -> list[str]:
        """Return the lines below the table of final scores: what its numbers are."""
        notes = ["mean and interquartile mean (IQM) with 95 % intervals of the bootstrap over runs"]
        if len(self.groups) > 1:
            notes.append(f"p: of the Mann-Whitney test against {self.groups[0].name}")
        return notes


def read_groups(words: Sequence[str]) -> tuple[list[RunGroup], list[str]]:
    """Read runs, and group those that differ only in their seed.

    Args:
        words: Folders, or NAME=FOLDER for a group with a name. A folder is a run, has several seeds of a training, or
            has such folders in it.

    Returns:
        The groups in the order of the words, and warnings about runs that are left out or have ended early.

    Raises:
        ConfigError: A folder holds no runs of trainings, a run is named twice, environments differ, or nothing is left.
        CheckpointError: A file of a run is damaged.
    """
    members: dict[tuple[str, str], list[RecordedRun]] = {}  # by name, or else by settings
    paths: dict[Path, Path] = {}
    warnings: list[str] = []
    for word in words:
        name, folder = _split(word)
        for path in find_runs(folder):
            if (resolved := path.resolve()) in paths:
                raise ConfigError(f"{path}: expected every run once, got it twice; name it or its folder only once")
            paths[resolved] = path
            run = read_run(path)
            if reason := _reason_to_leave_out(run):
                warnings.append(f"{path}: left out, {reason}")
            else:
                if run.steps < run.config.total_steps:
                    steps = f"{run.steps:,} of {run.config.total_steps:,} steps"
                    warnings.append(f"{path}: it has {steps}; compared as a run that has ended early by its settings")
                key = json.dumps(run.settings, sort_keys=True, default=str)
                members.setdefault((name, "" if name else key), []).append(run)
    runs = [run for group in members.values() for run in group]
    if not runs:
        raise ConfigError(f"expected a finished run, got none ({'; '.join(warnings)})")
    environments = {run.config.env_id: run.path for run in reversed(runs)}
    if len(environments) > 1:
        texts = " and ".join(f"{env_id} in {path}" for env_id, path in reversed(environments.items()))
        raise ConfigError(f"expected runs of one environment, got {texts}; compare them separately")
    names = _names([group[0].settings for group in members.values()])
    groups = [RunGroup(key[0] or name, group) for (key, group), name in zip(members.items(), names, strict=True)]
    for group in groups:
        _check_group(group)
        if sum(other.name == group.name for other in groups) > 1:
            raise ConfigError(f"expected groups of different names, got {group.name!r} twice; choose another NAME=RUN")
    return groups, warnings


def find_runs(folder: Path) -> list[Path]:
    """Return the folders of trainings in a folder: itself, its seeds, or those of its sub-folders.

    Raises:
        ConfigError: There are none.
    """
    kind = run_folder.run_kind(folder)
    if kind == "training":
        return [folder]
    if kind == "multi-seed":
        return run_folder.seed_runs(folder)
    if kind == "experiment":
        command = shell_command("gpu-envs", "experiment", "report", folder)
        raise ConfigError(f"{folder}: expected runs of gpu-envs train, got an experiment; {command} compares its runs")
    runs = []
    if kind is None and folder.is_dir():
        children = sorted(child for child in folder.iterdir() if child.is_dir())
        runs = [
            run
            for child in children
            if run_folder.run_kind(child) in ("training", "multi-seed")
            for run in find_runs(child)
        ]
    if not runs:
        content = f"{run_folder.with_article(kind)} run" if kind else "neither" if folder.is_dir() else "no folder"
        raise ConfigError(f"{folder}: expected a training, or a folder with trainings, got {content}")
    return runs


def _split(word: str) -> tuple[str, Path]:
    """Return name and folder of a word; "" without a name."""
    name, equals, folder = word.partition("=")
    if not equals or Path(word).exists():
        return "", Path(word)
    if not GROUP_NAME.fullmatch(name) or not folder:
        raise ConfigError(f"{word}: expected NAME=RUN with a name of letters, digits, spaces and _.,+()-")
    return name, Path(folder)


def read_run(path: Path) -> RecordedRun:
    """Read the configuration and the metrics of a run.

    Raises:
        CheckpointError: A file is missing or damaged.
    """
    file = path / checkpoint.CONFIG
    return RecordedRun(path, TrainConfig.from_json(read_json(file), str(file)), read_rows(path / "metrics.csv"))


def _reason_to_leave_out(run: RecordedRun) -> str:
    """Return why a run cannot be compared; "" if it has ended."""
    if run.has_ended():
        return ""
    command = shell_command("gpu-envs", "train", "--resume", run.path)
    next_step = "it is running" if run.is_running() else f"continue it with {command}"
    return f"it has {run.steps:,} of {run.config.total_steps:,} steps; {next_step}"


def _check_group(group: RunGroup) -> None:
    """Raise ConfigError if the runs of a group differ in more than their seed, or two have the same seed."""
    reference, *runs = group.runs
    seeds = {reference.config.seed: reference.path}
    for run in runs:
        differences = list(_differences(reference.settings, run.settings))
        if differences:
            name, values = (
                differences[0],
                [settings.get(differences[0]) for settings in (reference.settings, run.settings)],
            )
            raise ConfigError(
                f"{group.name}: expected runs that differ only in their seed, got {name} {_text(values[0])} in "
                f"{reference.path} and {_text(values[1])} in {run.path}; name them apart"
            )
        if path := seeds.get(run.config.seed):
            raise ConfigError(
                f"{group.name}: expected runs with different seeds, got seed {run.config.seed} in {path} and in "
                f"{run.path}; leave one out, or name them apart"
            )
        seeds[run.config.seed] = run.path


def _names(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of groups with these settings: the algorithm, if it differs, and other settings that differ.

    Settings of learners are compared between groups of the same algorithm.
    """
    names = []
    for settings in groups:
        algorithm = settings["algorithm"]
        peers = [group for group in groups if group["algorithm"] == algorithm]
        learner = {key for group in peers for key in _differences(settings, group) if key.startswith("learner.")}
        shared = {key for group in groups for key in _differences(settings, group) if not key.startswith("learner.")}
        keys = sorted((learner | shared) - {"algorithm"})
        short = {key: key.rpartition(".")[2] for key in keys}
        texts = [
            f"{short[key] if list(short.values()).count(short[key]) == 1 else key}={_text(settings.get(key))}"
            for key in keys
        ]
        is_named = len(peers) < len(groups) or not texts
        names.append(", ".join([*([algorithm] if is_named else []), *texts]))
    return names


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of settings that differ; one that is missing has its default."""
    for name in dict.fromkeys([*first, *second]):
        if first.get(name) != second.get(name):
            yield name


def _text(value: Any) -> str:
    return "default" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
