"""The command `gpu-envs experiment` and its subcommands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gpu_envs.cli.options import ImportOptions, OptionalInt, OptionalPath, OptionalStr, parse
from gpu_envs.errors import ConfigError
from gpu_envs.utils.progress import ProgressBar
from gpu_envs.utils.settings import setting
from gpu_envs.utils.suggestions import unknown_name_message
from gpu_envs.utils.terminal import align, shell_command
from trainers.experiments.experiment import EXECUTORS, Experiment
from trainers.storage.config_yaml import format_config

USAGE = """usage: gpu-envs experiment COMMAND ...

Compare algorithms on tasks with several seeds, as papers report it.

  gpu-envs experiment new FILE       write an example, with comments
  gpu-envs experiment run FILE       train and evaluate all cells, or continue
  gpu-envs experiment status FILE    show how far every cell is
  gpu-envs experiment report FOLDER  write tables and figures

gpu-envs experiment COMMAND --help prints the options, with an example.

example: gpu-envs experiment run paper.yaml"""
"""Help of `gpu-envs experiment`."""
TEMPLATE = Path(__file__).parents[1] / "experiments" / "template.yaml"
"""The file that `gpu-envs experiment new` writes."""


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions(ImportOptions):
    """An experiment."""

    path: Annotated[Positional[Path], arg(metavar="FILE")]
    """YAML file of the experiment, or its folder."""
    run_dir: OptionalPath = None
    """Folder of the experiment. Default: out/<name of the file>, or the folder itself."""

    def open(self) -> Experiment:
        """Return the experiment."""
        return Experiment(self.path, self.run_dir, allow_import=self.allow_import)


@dataclass(frozen=True, kw_only=True)
class ExperimentRunOptions(ExperimentOptions):
    """Train and evaluate all cells of an experiment; what is complete already is not repeated.

    Example: gpu-envs experiment run paper.yaml --executor process --num-workers 4
    """

    executor: str = setting("local", choices=EXECUTORS)
    """Place where cells run, with equal results: "local" (one at a time), "process" (several at a time), "ray"."""
    num_workers: OptionalInt = setting(None, ge=1, requires={"executor": "process"})
    """Number of processes of --executor process. Default: one for every two cores."""
    ray_address: OptionalStr = setting(None, requires={"executor": "ray"})
    """Ray cluster, whose nodes share the folder: "auto", "local" or HOST:PORT. Default: RAY_ADDRESS, else "local"."""
    print_config: bool = False
    """Print all settings of all cells and exit."""


@dataclass(frozen=True, kw_only=True)
class ExperimentStatusOptions(ExperimentOptions):
    """Show how far every cell of an experiment is.

    Example: gpu-envs experiment status out/paper
    """


@dataclass(frozen=True, kw_only=True)
class ExperimentReportOptions(ExperimentOptions):
    """Write tables and figures of an experiment, complete or not.

    Example: gpu-envs experiment report out/paper
    """

    output: OptionalPath = None
    """Folder of the report. Default: report/ in the folder of the experiment."""


@dataclass(frozen=True)
class ExperimentNewOptions:
    """Write an example of an experiment, with comments.

    Example: gpu-envs experiment new paper.yaml
    """

    path: Annotated[Positional[Path], arg(metavar="FILE")]
    """The file."""


def experiment_command(argv: list[str]) -> int:
    """Compare algorithms on tasks with several seeds."""
    if not argv or argv[0] in ("-h", "--help", "--help-all"):
        print(USAGE)
        return 0 if argv else 2
    commands: dict[str, Callable[[list[str]], int]] = {"new": _new, "run": _run, "status": _status, "report": _report}
    if argv[0] not in commands:
        raise ConfigError(f"experiment: {unknown_name_message('command', argv[0], list(commands))}")
    return commands[argv[0]](argv[1:])


def _new(argv: list[str]) -> int:
    path = parse(ExperimentNewOptions, "experiment new", argv).path
    if path.exists():
        raise ConfigError(f"experiment new: {path} exists already; choose another name")
    path.write_text(TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
    print(f"  {path}\ntry: {shell_command('gpu-envs', 'experiment', 'run', path)}")
    return 0


def _run(argv: list[str]) -> int:
    args = parse(ExperimentRunOptions, "experiment run", argv)
    experiment = args.open()
    if args.print_config:
        cells = {str(cell): {"command": cell.command, **cell.settings} for cell in experiment.grid.cells}
        print(format_config({"seeds": list(experiment.grid.seeds), "cells": cells}), end="")
        return 0
    grid, folder = experiment.grid, experiment.run_dir
    imports = [word for module in args.allow_import for word in ("--allow-import", module)]
    print(f"{len(grid.cells)} cells with {len(grid.seeds)} seeds each, {folder}/", flush=True)
    try:
        with ProgressBar(experiment.total_steps, "steps", file=sys.stderr) as progress:
            failures = experiment.run(args.executor, args.num_workers, args.ray_address, progress)
    except KeyboardInterrupt:
        print(f"interrupted; continue with:\n  {shell_command('gpu-envs', 'experiment', 'run', folder, *imports)}")
        return 130
    for name, message in failures.items():
        print(f"{name} failed: {message}")
    print(f"  {folder / 'evaluations.csv'}\n  {shell_command('gpu-envs', 'experiment', 'report', folder, *imports)}")
    return int(bool(failures))


def _status(argv: list[str]) -> int:
    experiment = parse(ExperimentStatusOptions, "experiment status", argv).open()
    print("\n".join(align([("task", "algorithm", "state"), *experiment.status()], 3)))
    return 0


def _report(argv: list[str]) -> int:
    args = parse(ExperimentReportOptions, "experiment report", argv)
    for file in args.open().report(args.output):
        print(f"  {file}")
    return 0
