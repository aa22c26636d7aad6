"""Options that the subcommands of `league` share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gpu_envs.cli.options import ImportOptions, OptionalFloat, OptionalInt, OptionalStr
from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import setting
from league.executors.process import ProcessExecutor
from league.executors.ray import RayExecutor
from league.executors.tasks import Executor, LocalExecutor
from trainers.loggers.logger import LOGGERS

EXECUTORS = ("local", "process", "ray")
"""Values of --executor."""
OWNERS = {"num_workers": "process", "gpus_per_learner": "ray", "memory_per_learner": "ray", "ray_address": "ray"}
"""The only executor that has an option, by the option's field."""


@dataclass(frozen=True, kw_only=True)
class ExecutorOptions:
    """The processes that train and evaluate; the result does not depend on them."""

    executor: str = "local"
    """Place where tasks run, with equal results: "local" (this process), "process" (workers) or "ray" (a cluster)."""
    num_workers: OptionalInt = None
    """Number of worker processes of --executor process. Default: one per CPU core."""
    ray_address: OptionalStr = None
    """Ray cluster of --executor ray: "auto", "local" or HOST:PORT. Default: RAY_ADDRESS, else "auto"."""
    gpus_per_learner: OptionalFloat = None
    """GPUs of each learner with --executor ray: a part such as 0.5, or a whole number, such as 4 for data-parallel
    training. Default: the GPUs of the cluster are divided among the learners of an iteration, and the shares are
    printed before the run."""
    memory_per_learner: OptionalFloat = None
    """GPU memory of each learner with --executor ray [GiB], which limits the number of learners on a GPU. Default: at
    most four learners share a GPU."""
    num_threads: int = 1
    """Number of PyTorch threads on the CPU, in this process and each worker. Increase it for large networks that
    PyTorch computes; their results depend on it. Kernels use all cores of a process whatever this number is, with equal
    results; `taskset` limits them."""

    def make_executor(self) -> Executor:
        """Return a new executor, which the caller closes.

        Raises:
            ConfigError: A value is out of range, or an option belongs to another executor.
            MissingExtraError: Ray is not installed.
        """
        if self.num_threads < 1:
            raise ConfigError(f"--num-threads {self.num_threads}: expected at least 1")
        if self.executor not in EXECUTORS:
            raise ConfigError(f"--executor {self.executor}: expected one of {', '.join(EXECUTORS)}")
        for name, owner in OWNERS.items():
            if getattr(self, name) is not None and self.executor != owner:
                raise ConfigError(
                    f"{_option(name)}: has no effect on --executor {self.executor}, only on {owner}; "
                    f"leave it out, or use --executor {owner}"
                )
        if self.executor == "ray":
            return RayExecutor(
                self.ray_address or "auto", self.gpus_per_learner, self.num_threads, self.memory_per_learner
            )
        if self.executor == "process":
            return ProcessExecutor(self.num_workers, self.num_threads)
        return LocalExecutor()

    def words(self) -> list[str]:
        """Return the options that differ from their defaults, as words of a command line.

        With two threads: ``["--num-threads", "2"]``.
        """
        words = []
        for field in fields(ExecutorOptions):  # not those of subclasses
            value = getattr(self, field.name)
            if value != field.default:
                words += [_option(field.name), str(value)]
        return words


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(ExecutorOptions):
    """The processes of a run, and what records it; the result does not depend on them."""

    logger: tuple[str, ...] = setting((), choices=tuple(LOGGERS), by_name=True)
    """Loggers of the iterations: "tensorboard", "wandb", "mlflow", "csv" (iterations.csv), or "module:Name" of your
    own; several if you like. Name the environment or the run before them."""

    def words(self) -> list[str]:
        """Return the options that differ from their defaults, with loggers."""
        return [*super().words(), *(("--logger", *self.logger) if self.logger else ())]


def _option(name: str) -> str:
    """Return the option of a field: "--num-threads" of "num_threads"."""
    return "--" + name.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class RunOptions(ImportOptions):
    """The run of a league that a command reads."""

    run_dir: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of the run."""
