"""The file of an experiment, and the cells that it describes: one for every algorithm on every task."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import re
import statistics
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_envs.cli.dispatch import run_command
from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.utils.settings import check_settings, setting
from gpu_envs.utils.suggestions import unknown_name_message
from trainers.base.serialization import read_json, write_json, write_text
from trainers.config.train_config import TrainConfig, make_train_core, members_by_policy
from trainers.evaluation.scripted_policies import SCRIPTED
from trainers.runner.training_evaluator import TrainingEvaluator
from trainers.storage import checkpoint
from trainers.storage.config_yaml import format_config, read_config
from trainers.storage.run_folder import EXPERIMENT, run_name

CROSS_PLAY = "cross_play"
"""Opponents of an evaluation: the policies of the other algorithms, trained with the same seed. Partners of an
evaluation: the policies of the same algorithm, trained with the other seeds."""
PARTNERS = "partners of seed"
"""First words of the name of partners from another seed, in the column "opponents" of evaluations."""
COMMANDS = ("train", "league train")
"""Commands of gpu-envs that train a cell."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
"""Form of the names of tasks and algorithms, which name folders."""


@dataclass(frozen=True)
class EvaluationProtocol:
    """How the policies of all cells are evaluated."""

    every: int | None = setting(None, ge=1)
    """Environment steps between the evaluations of a training; None: as the preset says."""
    episodes: int = setting(64, ge=1)
    """Episodes of each of these evaluations."""
    final_episodes: int | None = setting(None, ge=2)
    """Episodes of the evaluation of the best checkpoint after the training; None: 10 times `episodes`, as Gorsane et
    al. 2022 (arXiv 2209.10485) ask for."""
    greedy: bool = False
    """Take the most probable actions instead of samples."""

    @property
    def last_episodes(self) -> int:
        """Episodes of the evaluation after the training."""
        return self.final_episodes or 10 * self.episodes


@dataclass(frozen=True)
class ExperimentTask:
    """An environment with its settings, and how scores on it are read."""

    settings: dict[str, Any] = field(default_factory=dict)
    """Options of the training: env_id, env, and others that all algorithms share on this task."""
    score: str = "eval/score"
    """Column of metrics.csv that is the score, such as "eval/ally/won_battle_mean"."""
    bounds: tuple[float, float] | None = None
    """Scores that are 0 and 1 after normalization; None: the lowest and the highest final score on the task."""
    threshold: float | None = None
    """Score whose first crossing is reported; in a file also ``{baseline: NAME}``, the mean of its scores."""
    source: str = ""
    """Source of the threshold."""
    opponents: str = "random"
    """Opponents in evaluations where agents compete: "random", "scripted", a run, a checkpoint, "zoo:NAME", or
    "cross_play": after the trainings, the policies that the other algorithms have trained with the same seed."""
    partners: str | None = setting(None, choices=(CROSS_PLAY,))
    """None: the agents of a team have the policies of one training. "cross_play": they do, and after the trainings the
    first agent also plays with partners that have the policies of each other seed (zero-shot coordination)."""


@dataclass(frozen=True)
class CellChange:
    """Change of a single cell."""

    task: str = ""
    """Name of the task."""
    algorithm: str = ""
    """Name of the algorithm."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that override those of the task and of the algorithm."""
    skip: bool = False
    """Leave the cell out."""


@dataclass(frozen=True)
class Cell:
    """One algorithm on one task, trained with every seed."""

    task: str
    """Name of the task."""
    algorithm: str
    """Name of the algorithm in the file."""
    command: str
    """Command that trains it, see `COMMANDS`."""
    settings: dict[str, Any]
    """All settings of the command, as in a configuration file, without the seed."""

    @property
    def path(self) -> Path:
        """Folder of the runs, in the folder of the experiment."""
        return Path("runs") / self.task / self.algorithm

    @property
    def total_steps(self) -> int:
        """Environment steps of a seed; 0 for leagues, whose length is a number of iterations."""
        return int(self.settings.get("total_steps", 0))

    @property
    def trains_seeds_at_once(self) -> bool:
        """Whether one process trains all seeds."""
        return self.command == "train" and not self.settings.get("num_actors")

    def run_of(self, seed: int) -> Path:
        """Return the folder of a seed's run, in the folder of the experiment."""
        return self.path / run_name(seed)

    def __str__(self) -> str:
        return f"{self.algorithm} on {self.task}"


@dataclass(frozen=True)
class Grid:
    """An experiment: its tasks, its seeds, and its cells."""

    tasks: dict[str, ExperimentTask]
    """Tasks by name."""
    cells: tuple[Cell, ...]
    """Cells in the order of the file, by task."""
    seeds: range
    """Seeds of every cell."""
    evaluation: EvaluationProtocol
    """Protocol of the evaluations."""
    baselines: dict[str, dict[str, list[float]]]
    """Scores of another program by its name and by task, one for every seed."""
    text: str
    """Content of the file."""

    @property
    def algorithms(self) -> list[str]:
        """Names of the algorithms in the order of the file."""
        return list(dict.fromkeys(cell.algorithm for cell in self.cells))

    @classmethod
    def read(cls, path: Path, allow_import: Sequence[str] = ()) -> Grid:
        """Read the file of an experiment, and check all settings of all cells.

        Args:
            path: The YAML file; paths of baselines in it are relative to its folder.
            allow_import: Modules that the file may name.

        Raises:
            ConfigError: The file is invalid, or names a module that is not allowed. The message names the first cell.
        """
        values = read_config(path)
        with _errors_of(path):
            return _grid(values, path, [word for module in allow_import for word in ("--allow-import", module)])

    def check_evaluation(self, cell: Cell) -> None:
        """Check that opponents and score of a cell's task fit its environment.

        The score of a league is not checked, because its environment names the policies when it is exported.

        Raises:
            ConfigError: They do not, or the opponents do not exist.
        """
        task = self.tasks[cell.task]
        with _errors_of(str(cell)):
            if cell.command != "train":
                if task.partners is not None:
                    raise ConfigError("partners: expected none for a league; leave it out, or skip the cell")
                if task.opponents not in ("random", SCRIPTED, CROSS_PLAY):
                    checkpoint.find(Path(task.opponents))
                return
            config = dataclasses.replace(TrainConfig.from_json(cell.settings), device="cpu", env_workers=1)
            with contextlib.closing(make_train_core(config, 1, config.seed)) as core:
                sides = {name: tuple(members) for name, members in members_by_policy(config, core).items()}
                evaluators = [TrainingEvaluator(config, core, sides)]
                if task.opponents == CROSS_PLAY:
                    evaluators[0].check_opponents(core, "opponents")
                if task.partners == CROSS_PLAY:
                    agents = {agent: (agent,) for agent in core.possible_agents}
                    if len(agents) < 2 or core.definition.roles:
                        raise ConfigError(f"partners: expected a team of agents, got {core.id}; leave it out")
                    evaluators.append(TrainingEvaluator(config, core, agents))
            for evaluator in evaluators:
                if task.score not in evaluator.columns:
                    raise ConfigError(f"score: {unknown_name_message('column', task.score, evaluator.columns)}")

    def copy_to(self, folder: Path) -> None:
        """Write the file and the scores of baselines into the folder of an experiment, where `read` finds them."""
        for name, tasks in self.baselines.items():
            (folder / BASELINES).mkdir(exist_ok=True)
            write_json(folder / BASELINES / f"{name}.json", {task: {"scores": s} for task, s in tasks.items()})
        write_text(folder / EXPERIMENT, self.text)


BASELINES = "baselines"
"""Folder of the scores of baselines, in the folder of an experiment."""
SETTINGS = "settings.yaml"
"""File with the settings of a cell that has begun, in its folder."""
CHOSEN = (
    "seed", "num_seeds", "run_dir", "resume", "num_workers", "ray_address", "eval_episodes", "eval_greedy",
    "eval_opponents",
)  # fmt: skip
"""Settings that the experiment chooses."""
OF_LEAGUES = ("env_id", "env", "device")
"""Settings that leagues take over from those of all cells and of their task."""
_KEYS = ("tasks", "algorithms", "seeds", "settings", "evaluation", "cells", "baselines")


def _grid(values: Mapping[str, Any], path: Path, imports: Sequence[str]) -> Grid:
    _check_names("setting", values, _KEYS)
    entries = _named(values, "tasks")
    baselines = _baselines(values.get("baselines"), path, entries)
    tasks = {name: _task(name, entry, baselines) for name, entry in entries.items()}
    protocol = _record(EvaluationProtocol, "evaluation", values.get("evaluation"))
    shared = _mapping("settings", values.get("settings"))
    algorithms = {key: _mapping(f"algorithms.{key}", entry) for key, entry in _named(values, "algorithms").items()}
    changes = _changes(values.get("cells"), tasks, algorithms)
    seeds, cells = _seeds(values.get("seeds", 10)), []
    for (task, about), (name, algorithm) in itertools.product(tasks.items(), algorithms.items()):
        change = changes.get((task, name), CellChange())
        command = algorithm.get("command", "train")
        if command not in COMMANDS:
            raise ConfigError(f"algorithms.{name}: command: expected {' or '.join(COMMANDS)}, got {command!r}")
        if change.skip:
            continue
        settings = _merged(shared, about.settings)
        if command != "train":
            settings = {key: value for key, value in settings.items() if key in OF_LEAGUES}
        settings = _merged(settings, {key: value for key, value in algorithm.items() if key != "command"})
        settings = _merged(settings, change.settings)
        cell = Cell(task, name, command, {"algorithm": name, **settings})
        recorded = path.parent / cell.path / SETTINGS
        with _errors_of(str(cell)):
            if path.name == EXPERIMENT and recorded.is_file():
                settings = _recorded(recorded)
            else:
                settings = _expanded(cell, about.opponents, protocol, imports)
        cells.append(dataclasses.replace(cell, settings=settings))
    if not cells:
        raise ConfigError("cells: expected one that is not skipped, got none")
    if repeated := [name for name in baselines if name in algorithms]:
        raise ConfigError(f"baselines.{repeated[0]}: expected another name than an algorithm's")
    for name, task in tasks.items():
        if task.opponents == CROSS_PLAY and sum(cell.task == name for cell in cells) < 2:
            raise ConfigError(f"tasks.{name}: opponents: expected two algorithms or more for cross_play, got one")
        if task.partners == CROSS_PLAY and len(seeds) < 2:
            raise ConfigError(f"tasks.{name}: partners: expected two seeds or more for cross_play, got one")
    return Grid(tasks, tuple(cells), seeds, protocol, baselines, path.read_text("utf-8"))


def _task(name: str, value: Any, baselines: Mapping[str, Mapping[str, list[float]]]) -> ExperimentTask:
    """Return a task; the threshold {"baseline": NAME} is the mean of the scores of that baseline on it."""
    label = f"tasks.{name}"
    entries = _mapping(label, value)
    if isinstance(threshold := entries.get("threshold"), Mapping):
        scores = baselines.get(str(threshold.get("baseline")), {}).get(name)
        if scores is None or len(threshold) > 1:
            raise ConfigError(
                f"{label}: threshold: expected a number, or {{baseline: NAME}} of a baseline with scores on this task, "
                f"got {threshold!r:.80}"
            )
        entries["threshold"] = statistics.fmean(scores)
    task = _record(ExperimentTask, label, entries)
    if task.bounds is not None and not (len(task.bounds) == 2 and task.bounds[0] < task.bounds[1]):
        raise ConfigError(f"{label}: bounds: expected a lower and a higher score, got {list(task.bounds)}")
    return task


def _recorded(file: Path) -> dict[str, Any]:
    """Return the settings of a cell that has begun, as they were expanded then."""
    settings = read_config(file)
    if type(steps := settings.get("total_steps", 0)) is not int:
        raise ConfigError(f"{file}: total_steps: expected an int, got {steps!r:.80}; remove the folder of this cell")
    return settings


def _expanded(cell: Cell, opponents: str, protocol: EvaluationProtocol, imports: Sequence[str]) -> dict[str, Any]:
    """Return all settings of a cell as its command prints them."""
    for name in (*CHOSEN, *(["checkpoint_interval"] if protocol.every is not None else [])):
        if name in cell.settings:
            raise ConfigError(f"{name}: expected none, because the experiment chooses it; leave it out")
    if cell.command != "train":
        return _printed(cell.command, cell.settings, imports)
    defaults = {"logger": ["csv"], "eval_episodes": protocol.episodes, "eval_greedy": protocol.greedy}
    defaults |= {} if opponents in ("random", CROSS_PLAY) else {"eval_opponents": opponents}
    expanded = _printed(cell.command, {**defaults, **cell.settings}, imports)
    expanded["num_threads"] = expanded["num_threads"] or 1  # sums of PyTorch depend on the number
    if protocol.every is not None:
        rollout_steps = expanded["num_envs"] * expanded["learner"]["rollout_length"]
        expanded["checkpoint_interval"] = max(1, round(protocol.every / rollout_steps))
    return expanded


def _printed(command: str, settings: Mapping[str, Any], imports: Sequence[str]) -> dict[str, Any]:
    """Return what a command prints with --print-config; raise its error about the settings."""
    with tempfile.TemporaryDirectory(prefix="gpu-envs-cell-") as folder:
        file, text = Path(folder) / "settings.yaml", io.StringIO()
        file.write_text(format_config(settings), encoding="utf-8")
        try:
            with contextlib.redirect_stdout(text):
                run_command([*command.split(), "--config", str(file), "--print-config", *imports])
        except GpuEnvsError as error:
            message = str(error).replace(f"{file}: ", "").removeprefix(f"{command}: ")
            raise ConfigError(message.partition("; see gpu-envs")[0]) from None
        file.write_text(text.getvalue(), encoding="utf-8")
        expanded = read_config(file)
    return {name: value for name, value in expanded.items() if name not in ("seed", "video")}


def _baselines(files: Any, path: Path, tasks: Collection[str]) -> dict[str, dict[str, list[float]]]:
    """Return the scores of other programs: of the files, or of their copies in the folder of an experiment."""
    baselines = {}
    for name, file in _mapping("baselines", files).items():
        copy = path.parent / BASELINES / f"{name}.json"
        has_copy = path.name == EXPERIMENT and copy.is_file()
        with _errors_of(f"baselines.{name}"):
            baselines[name] = _scores(copy if has_copy else path.parent / str(file), tasks)
    return baselines


def _scores(file: Path, tasks: Collection[str]) -> dict[str, list[float]]:
    """Return the scores of another program by task: a JSON object {task: {"scores": [...]}}."""
    scores = {}
    for name, entry in read_json(file).items():
        if name not in tasks:
            raise ConfigError(f"{file}: {unknown_name_message('task', name, tasks)}")
        values = entry.get("scores") if isinstance(entry, dict) else None
        if not values or not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
            raise ConfigError(f'{file}: {name}: expected {{"scores": [numbers, one for every seed]}}')
        scores[name] = [float(value) for value in values]
    return scores


def _changes(
    entries: Any, tasks: Mapping[str, Any], algorithms: Mapping[str, Any]
) -> dict[tuple[str, str], CellChange]:
    """Return the changes of single cells by task and algorithm."""
    if entries is not None and not isinstance(entries, list):
        raise ConfigError(f"cells: expected a list, got {entries!r:.80}")
    changes: dict[tuple[str, str], CellChange] = {}
    for number, entry in enumerate(entries or []):
        label = f"cells[{number}]"
        change = _record(CellChange, label, entry)
        for kind, name, names in (("task", change.task, tasks), ("algorithm", change.algorithm, algorithms)):
            if name not in names:
                raise ConfigError(f"{label}: {unknown_name_message(kind, name, list(names))}")
        if (change.task, change.algorithm) in changes:
            raise ConfigError(f"{label}: expected every cell once, got {change.algorithm} on {change.task} twice")
        changes[change.task, change.algorithm] = change
    return changes


def _seeds(value: Any) -> range:
    numbers: list[Any] = value if isinstance(value, list) else list(range(value)) if type(value) is int else []
    is_ints = bool(numbers) and all(type(number) is int for number in numbers)
    if not is_ints or numbers != list(range(numbers[0], numbers[0] + len(numbers))) or numbers[0] < 0:
        raise ConfigError(f"seeds: expected their number or consecutive seeds such as [3, 4, 5], got {value!r:.80}")
    return range(numbers[0], numbers[-1] + 1)


def _named(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    entries = _mapping(key, values.get(key))
    if not entries:
        raise ConfigError(f"{key}: expected a mapping with one entry or more, got none")
    for name in entries:
        if not NAME.fullmatch(name):
            raise ConfigError(f"{key}: {name!r}: expected letters, digits and -_.+, because it names a folder")
    return entries


def _record(kind: type[Any], label: str, values: Any) -> Any:
    """Return a dataclass with the values of a mapping, checked."""
    entries = _mapping(label, values)
    _check_names(f"setting of {label}", entries, [option.name for option in dataclasses.fields(kind)])
    if "settings" in entries:
        entries["settings"] = _mapping(f"{label}.settings", entries["settings"])
    with _errors_of(label):
        record = kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in entries.items()})
        check_settings(record)
    return record


def _mapping(label: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{label}: expected a mapping of names to values, got {value!r:.80}")
    return {str(name): entry for name, entry in value.items()}


def _check_names(kind: str, values: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in values:
        if name not in names:
            raise ConfigError(unknown_name_message(kind, name, names))


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings; those of the second count."""
    result = dict(first)
    for name, value in second.items():
        nested = result.get(name)
        result[name] = _merged(nested, value) if isinstance(nested, Mapping) and isinstance(value, Mapping) else value
    return result


@contextlib.contextmanager
def _errors_of(owner: Path | str) -> Any:
    """Let messages of errors begin with what they are about."""
    try:
        yield
    except GpuEnvsError as error:
        raise ConfigError(f"{owner}: {error}") from None
