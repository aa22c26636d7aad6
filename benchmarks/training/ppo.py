"""PPO training as a subject of an alternating run."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from gpu_envs.runtime.core import Core
from trainers.algorithms.on_policy.kernel_engine import KernelEngine
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.presets import PRESETS
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.trainer import Trainer
from trainers.storage.learning_curves import read_rows


@contextlib.contextmanager
def few_cores(count: int) -> Iterator[None]:
    """Let this thread see `count` cores within the block: kernels that are prepared there use that many threads."""
    cores, threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, sorted(cores)[:count])
    torch.set_num_threads(1)  # threads that PyTorch starts here would keep to these cores
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        torch.set_num_threads(threads)


ENDLESS = 10**9
"""Unreachable number of steps and iterations, to disable evaluations and checkpoints."""


class PPOTraining:
    """An endless training; a step is one step of its batch of worlds.

    Args:
        env_id: ID of the environment.
        num_envs: Number of worlds; None for the preset's.
        threads: Number of threads of the environment, and of the kernels or PyTorch.
        ppo: Settings of PPO; None for the preset's.
        engine: Engine of the learner, see `TrainConfig.engine`.
        env: Settings of the environment; None for the preset's.
    """

    pid: int | None = None

    def __init__(
        self,
        env_id: str,
        num_envs: int | None,
        threads: int,
        ppo: Mapping[str, Any] | None,
        engine: str = "auto",
        env: Mapping[str, Any] | None = None,
    ) -> None:
        preset = PRESETS.get((env_id, "cpu", "ppo"), {})
        config = TrainConfig(
            env_id,
            env=dict(preset.get("env", {}) if env is None else env),
            num_envs=num_envs or preset["num_envs"],
            total_steps=ENDLESS,
            checkpoint_interval=ENDLESS,
            eval_episodes=0,
            num_threads=threads,
            engine=engine,
            learner=PPOConfig(**(preset["learner"] if ppo is None else ppo)),
        )
        self.config = config
        self._folder = tempfile.TemporaryDirectory()
        with few_cores(threads):
            self._trainer = Trainer(self.config, run_dir=Path(self._folder.name) / "run", factory=self._core)
        learners = [assignment.learner for assignment in self._trainer.assignments.values()]
        self.uses_kernels = any(isinstance(getattr(learner, "engine", None), KernelEngine) for learner in learners)
        """Whether kernels act and learn."""
        self.num_envs, self.agents = config.num_envs, self._trainer.core.num_agents

    def turn(self, count: int) -> float:
        """Train for a number of steps, rounded up to whole rollouts, and return the seconds per step."""
        length = self.config.learner.rollout_length
        rollouts = -(-count // length)
        threads = torch.get_num_threads()
        # OpenMP threads that spin after an operation of PyTorch would take the cores of the kernels
        torch.set_num_threads(1 if self.uses_kernels else self.config.num_threads)
        try:
            begin = time.perf_counter()
            for _ in range(rollouts):
                self._trainer.iterate()
            return (time.perf_counter() - begin) / (rollouts * length)
        finally:
            torch.set_num_threads(threads)

    def _core(self, config: TrainConfig, num_envs: int, seed: int, **settings: Any) -> Core:
        """Create environments that use the threads of the training."""
        return make_train_core(config, num_envs, seed, **{"threads": min(config.num_threads, num_envs), **settings})

    def shares(self, turn: float) -> dict[str, float]:
        """Train for at least a duration and return the share of each phase in the time of whole iterations."""
        first = self._trainer.iteration
        begin = time.perf_counter()
        while time.perf_counter() - begin < turn or self._trainer.iteration == first:
            self.turn(1)
        rows = [row for row in read_rows(self._trainer.run_dir / "metrics.csv") if int(row["iteration"]) > first]
        phases = [name for name in rows[0] if name.startswith("time/")]
        lasted = sum(float(row[name]) for row in rows for name in phases)
        return {name.removeprefix("time/"): sum(float(row[name]) for row in rows) / lasted for name in phases}

    def close(self) -> None:
        """Remove the output files."""
        self._trainer.log.close()
        self._folder.cleanup()
