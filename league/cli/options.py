"""Options that the subcommands of `league` share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gpu_envs.cli.options import ImportOptions, OptionalFloat, OptionalInt, OptionalStr
from gpu_envs.errors import ConfigError
from league import executors
from league.executors import Executor

__all__ = ["EXECUTORS", "ExecutorOptions", "RunOptions"]

EXECUTORS = ("local", "process", "ray")
"""Values of --executor."""
OWNERS = {"num_workers": "process", "gpus_per_learner": "ray", "memory_per_learner": "ray", "ray_address": "ray"}
"""Executors of the options that only one of them has."""


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
    """GPUs of each training with --executor ray: a part such as 0.5, or a whole number, such as 4 for data-parallel
    training. Default: the GPUs of the cluster are divided among the trainings of an iteration, and the shares are
    printed before the run."""
    memory_per_learner: OptionalFloat = None
    """GPU memory of each training with --executor ray [GiB], which limits the number of trainings on a GPU. Default: at
    most four share a GPU."""
    num_threads: int = 1
    """Number of PyTorch threads on the CPU, in this process and each worker. Increase it for large networks that
    PyTorch computes; their results depend on it. Kernels use all cores of a process whatever this number is, with equal
    results; `taskset` limits them."""

    def make_executor(self) -> Executor:
        """Return the executor.

        Raises:
            ConfigError: Wrong options.
        """
        if self.num_threads < 1:
            raise ConfigError(f"--num-threads {self.num_threads}: expected at least 1")
        if self.executor not in EXECUTORS:
            raise ConfigError(f"--executor {self.executor}: expected one of {', '.join(EXECUTORS)}")
        for name, owner in OWNERS.items():
            if getattr(self, name) is not None and self.executor != owner:
                option = name.replace("_", "-")
                raise ConfigError(f"--{option}: has no effect on --executor {self.executor}, only on {owner}")
        if self.executor == "ray":
            address, memory = self.ray_address or "auto", self.memory_per_learner
            return executors.RayExecutor(address, self.gpus_per_learner, self.num_threads, memory)
        if self.executor == "process":
            return executors.ProcessExecutor(self.num_workers, self.num_threads)
        return executors.LocalExecutor()

    def words(self) -> list[str]:
        """Return the options that differ from their defaults, as words of a command line."""
        values = [(field.name, getattr(self, field.name)) for field in fields(ExecutorOptions)]
        changed = [(name, value) for name, value in values if value != getattr(ExecutorOptions, name)]
        return [word for name, value in changed for word in (f"--{name.replace('_', '-')}", str(value))]


@dataclass(frozen=True, kw_only=True)
class RunOptions(ImportOptions):
    """The run of a league that a command reads."""

    run_dir: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of the run."""
