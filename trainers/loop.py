"""The training loop: one environment, one learner per policy, rollouts and updates in turn."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

import torch

from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from trainers import checkpoint, runs
from trainers.agents import members_of
from trainers.checkpoint import Checkpoint
from trainers.collector import Collector
from trainers.config import CoreFactory, TrainConfig, make_core, make_eval_core
from trainers.evaluate import play
from trainers.files import write_json
from trainers.learner import State
from trainers.logs import Progress, RunLog

EVAL_SEED = 271_828
"""Worlds of the evaluations; training worlds have the run's own seed."""


class Trainer:
    """Collects rollouts from one core, updates one learner per policy, and keeps the run's files.

    Inside a rollout nothing is read from the device and no Python runs per agent; metrics stay on the device and are
    read once per iteration.
    """

    def __init__(
        self,
        config: TrainConfig,
        out: Path | None = None,
        resume: Checkpoint | None = None,
        factory: CoreFactory = make_core,
        progress: Progress | None = None,
    ) -> None:
        """Builds environment and learners, and then opens the run's folder.

        Args:
            config: The run.
            out: Its folder, not that of another run; if None a new one below out/, or the run's own with `resume`.
            resume: Continue from here. Later checkpoints of the same run go aside, see `runs.set_aside`.
            factory: Makes cores, `make_core` unless a test has its own.
            progress: Called after every iteration.

        Raises:
            ConfigError: `out` holds another run or cannot be made, or `resume` has `total_steps` behind it.
            CheckpointError: `resume` does not fit `config`.
        """
        out = runs.choose(out, resume)
        self.config, self.factory, self.progress = config, factory, progress
        if resume is not None:
            _check_resume(config, resume)
        self.core = factory(config, config.num_envs, config.seed)
        self.device: torch.device = self.core.device
        self.collector = Collector(config, self.core)
        self.seats = self.collector.seats
        self.iteration, self.steps, self.seconds = 0, 0, 0.0
        self.stopped_by: int | None = None
        self.saved: int | None = None
        self.aside: Path | None = None
        self.shown: dict[str, str] = {}
        self.eval_core: Core | None = None
        if resume is not None:
            self._restore(resume)
        self.out = runs.open_folder(out, config.env_id)
        if resume is not None and runs.belongs(resume, self.out):
            self.saved = resume.iteration
            self.aside = runs.set_aside(self.out, resume.iteration)
        elif resume is not None:  # a run in a folder of its own has its first checkpoint there
            self._save(resume.score)
        self.log = RunLog(self.out, after=self.iteration)
        write_json(self.out / "config.json", dataclasses.asdict(config))

    def run(self) -> Path:
        """Trains to `total_steps`, or to the end of the iteration in which SIGINT or SIGTERM came.

        Returns:
            The last checkpoint, saved in either case. `stopped_by` holds the signal, if any.

        Raises:
            GpuEnvsError: Losses or gradients are no longer finite; the checkpoints are from before.
        """
        threads = torch.get_num_threads()
        self.config.use_threads()
        try:
            with _signals(self._stop):
                while self.iteration < self.config.iterations and self.stopped_by is None:
                    self.iterate()
            if self.saved != self.iteration:
                self._save(score=None)
        finally:
            self.log.close()
            torch.set_num_threads(threads)
        return checkpoint.find(self.out)

    def _stop(self, number: int) -> None:
        self.stopped_by = number

    def iterate(self) -> None:
        """One rollout, one update of every learner, one row of metrics, and a checkpoint when it is due."""
        begin = time.perf_counter()
        episodes = self.collector.collect()
        metrics = self.collector.update()
        self.iteration += 1
        taken = self.config.rollout_steps
        self.steps += taken
        values = torch.stack([value.float() for value in metrics.values()]).tolist() if metrics else []
        check_finite(self.iteration, dict(zip(metrics, values, strict=True)), self.out / "checkpoints")
        phases = self.collector.clock.read()
        lasted = time.perf_counter() - begin
        self.seconds += lasted
        row = {"iteration": self.iteration, "steps": self.steps, "seconds": self.seconds}
        row |= {"steps_per_second": taken / lasted, **{f"time/{phase}": value for phase, value in phases.items()}}
        row |= self.collector.episode_metrics(episodes) | dict(zip(metrics, values, strict=True))
        due = self.iteration % self.config.checkpoint_every == 0 or self.iteration == self.config.iterations
        score = None
        if due and self.config.eval_episodes:
            against_random = self._evaluate()
            row |= against_random
            returns = [value for name, value in against_random.items() if name.endswith("/return")]
            score = sum(returns) / len(returns)
        self.log.write(row)
        if due:
            self._save(score)
        if self.progress is not None:
            for group in self.core.groups:  # the last known value: not every rollout sees the end of an episode
                value = row[f"{group}/return_per_agent"]
                self.shown[group] = self.shown.get(group, "-") if math.isnan(value) else f"{value:.2f}"
            text = "  ".join(f"{group} {value}" for group, value in self.shown.items())
            self.progress(self.steps, f"{row['steps_per_second']:,.0f} steps/s  return per agent: {text}")

    def _evaluate(self) -> dict[str, float]:
        """Each policy against random ones, the same worlds every time; draws from no stream of the training."""
        if self.eval_core is None:
            self.eval_core = make_eval_core(self.config, self.config.eval_episodes, self.config.seed, self.factory)
        row = {}
        for name, seat in self.seats.items():
            policy = seat.learner.policy()
            outcome = play(self.eval_core, dict.fromkeys(seat.members, policy), seed=EVAL_SEED)
            rows = set(members_of(self.core, seat.members))
            own = [group for group, members in self.core.groups.items() if rows & set(members)]
            row[f"eval/{name}/return"] = sum(outcome.returns[group].mean for group in own)
            row[f"eval/{name}/episode_length"] = outcome.length.mean
        return row

    def _save(self, score: float | None) -> None:
        """Writes a checkpoint of everything the next iteration depends on."""
        state: State = {**self.collector.state_dict(), "trainer.seconds": self.seconds}
        policies = {name: seat.learner.policy() for name, seat in self.seats.items()}
        folder, config = self.out / "checkpoints", dataclasses.asdict(self.config)
        checkpoint.save(folder, self.iteration, self.steps, config, state, policies, score, self.config.keep_last)
        self.saved = self.iteration

    def _restore(self, resume: Checkpoint) -> None:
        """Puts everything back."""
        self.collector.load_state_dict(resume.state)
        seconds = resume.state.get("trainer.seconds")
        if not isinstance(seconds, int | float):
            raise CheckpointError(
                f"{resume.path / 'manifest.json'}: trainer.seconds: expected a number, got {seconds!r}"
            )
        self.seconds, self.iteration, self.steps = seconds, resume.iteration, resume.steps


def check_finite(iteration: int, metrics: Mapping[str, float], checkpoints: Path | None = None) -> None:
    """Ends a training that has come apart, before it is saved over what it was.

    Raises:
        GpuEnvsError: Names the first loss or gradient that is not finite, and the last of the checkpoints.
    """
    for name, value in metrics.items():
        if name.endswith(("loss", "grad_norm")) and not math.isfinite(value):
            kept = [] if checkpoints is None else checkpoint.every(checkpoints)
            where = f"the last checkpoint before is {kept[-1]}" if kept else "there is no checkpoint yet"
            where = where if checkpoints is not None else "the checkpoints are from before"
            raise GpuEnvsError(
                f"iteration {iteration}: {name} is {value}: the training has diverged, or the environment "
                f"gave what is not finite; {where}. Try a lower learner.learning_rate or learner.reward_scale"
            )


def _check_resume(config: TrainConfig, resume: Checkpoint) -> None:
    """Sees that a checkpoint is of this run and that something is left to do."""
    config.check_same_run(resume.config, str(resume.path / "manifest.json"))
    if config.total_steps <= resume.steps:
        raise ConfigError(
            f"total_steps = {config.total_steps}: expected more than the {resume.steps} of {resume.path}; "
            "raise it, or see what was learned with gpu-envs eval"
        )


@contextlib.contextmanager
def _signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Within the block the first SIGINT or SIGTERM calls `stop`; a second one acts as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread only
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: FrameType | None) -> None:
        stop(number)
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
