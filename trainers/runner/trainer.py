"""The training loop: one environment, one learner per policy, rollouts and updates in turn."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gpu_envs.errors import CheckpointError, ConfigError
from trainers import checkpoint, runs
from trainers.checkpoint import Checkpoint
from trainers.collector import Collector
from trainers.config import CoreFactory, TrainConfig, make_core
from trainers.files import write_json
from trainers.folder_lock import FolderLock, check_free
from trainers.judge import Judge
from trainers.logs import PHASES, Progress, RunLog
from trainers.sharded_state import own_state, whole_state
from trainers.sharding import Shard
from trainers.stopping import Patience, signals


class Trainer:
    """Collects rollouts from one core, updates one learner per policy, and keeps the run's files.

    Inside a rollout nothing is read from the device and no Python runs per agent; metrics stay on the device and are
    read once per iteration. With a shard it is one rank of several, of which each has a trainer for the same run.
    """

    def __init__(
        self,
        config: TrainConfig,
        out: Path | None = None,
        resume: Checkpoint | None = None,
        factory: CoreFactory = make_core,
        progress: Progress | None = None,
        on_save: Callable[[Path, Mapping[str, float]], None] | None = None,
        shard: Shard | None = None,
        locked: bool = False,
    ) -> None:
        """Builds environment and learners, and then opens the run's folder.

        Args:
            config: The run.
            out: Its folder, not that of another run; if None a new one below out/, or the run's own with `resume`.
            resume: Continue from here. Later checkpoints of the same run go aside, see `runs.set_aside`. With a shard
                it is what `load_on_first` gave.
            factory: Makes cores, `make_core` unless a test has its own.
            progress: Called after every iteration.
            on_save: Called after every checkpoint with its folder, and the metrics of its iteration.
            shard: Of `config.num_envs`, which worlds are here, and on which device; None: all, on `config.device`. What
                is written the first rank writes.
            locked: The process that started this one holds the folder's lock; else the first rank takes it, until `run`
                has ended.

        Raises:
            ConfigError: `out` holds another run or cannot be made, or `resume` has `total_steps` behind it.
            CheckpointError: `resume` does not fit `config` or lost its replay, or `eval_against` not the environment.
            GpuEnvsError: Another process writes in the folder.
        """
        if shard is not None:
            config = dataclasses.replace(config, device=str(shard.device))
        config.prepare()
        self.shard = shard = shard or Shard.of(0, 1, config.num_envs)
        self.lock: FolderLock | None = None
        out = shard.from_first(lambda: _free(runs.choose(out, resume), locked))
        self.config, self.progress, self.on_save = config, progress, on_save
        self.row: dict[str, float] = {}
        if resume is not None:
            _check_resume(config, resume)
        self.core = factory(config, shard.num_envs, config.seed, **shard.offset_setting)
        self.collector = shard.agreed(lambda: Collector(config, self.core, shard=shard))
        self.seats, self.episodes = self.collector.seats, self.collector.episodes
        self.iteration, self.steps, self.seconds = 0, 0, 0.0
        self.stopped_by: int | None = None
        self.saved: int | None = None
        self.aside: Path | None = None
        self.shown: dict[str, str] = {}
        self.judge = Judge(config, self.core, self.seats, factory)
        self.patience = Patience(config.patience)
        if resume is not None:
            self._restore(resume)
        self.out = shard.from_first(lambda: self._open(out, resume, locked))
        if resume is not None and shard.from_first(lambda: runs.belongs(resume, self.out)):
            self.saved = resume.iteration
            self.aside = shard.from_first(lambda: runs.set_aside(self.out, self.iteration))
        elif resume is not None:  # a run in a folder of its own has its first checkpoint there
            self._save(resume.score)
        if shard.first:
            self.log = RunLog(self.out, after=self.iteration)
            write_json(self.out / "config.json", dataclasses.asdict(config))

    def _open(self, out: Path | None, resume: Checkpoint | None, locked: bool) -> Path:
        """On the first rank."""
        if locked:
            return runs.make_folder(out, self.config.env_id)
        path, self.lock = runs.open_folder(out, self.config.env_id, resume)
        return path

    def run(self) -> Path:
        """Trains to `total_steps`, to what `reached` and `patience` say, or until SIGINT or SIGTERM.

        The iteration in which a signal comes is finished, its evaluation too.

        Returns:
            The last checkpoint, saved in any case; on ranks after the first the run's folder, which may be elsewhere.
            `stopped_by` holds the signal, if any.

        Raises:
            GpuEnvsError: Losses, gradients or parameters are no longer finite; the checkpoints are from before.
        """
        try:
            with self.config.in_force(), signals(self._stop):
                while self.iteration < self.config.iterations and not self._over():
                    self.iterate()
            if self.saved != self.iteration:
                self._save(score=None)
        finally:
            if self.shard.first:
                self.log.close()
            if self.lock is not None:
                self.lock.release()
        return checkpoint.find(self.out) if self.shard.first else self.out

    @property
    def reached(self) -> bool:
        """Whether the mean return of the last episodes is what `until_return` asks for, in every group."""
        goal, returns = self.config.until_return, self.episodes.recent_returns()
        return goal is not None and bool(returns) and min(returns.values()) >= goal

    def _over(self) -> bool:
        self.stopped_by = self.shard.largest(self.stopped_by or 0) or None
        return self.stopped_by is not None or self.patience.over or self.reached

    def _stop(self, number: int) -> None:
        self.stopped_by = number

    def iterate(self) -> None:
        """One rollout, one update of every learner, one row of metrics, and a checkpoint when it is due.

        The row tells how long each phase took since the row before it was made up; the time of logging and of a
        checkpoint, which follow it, is therefore in the next.
        """
        clock, begin = self.collector.clock, time.perf_counter()
        self.collector.collect()
        metrics = self.collector.update(self.iteration + 1, self._kept)
        episodes = self.episodes.read(self.collector.descent)
        clock.mark("storage")
        self.iteration += 1
        taken = self.config.rollout_steps
        self.steps += taken
        lasted = time.perf_counter() - begin
        self.seconds += lasted
        scores: dict[str, float] = {}
        due = self.iteration % self.config.checkpoint_every == 0 or self.iteration == self.config.iterations
        if due and self.config.eval_episodes:
            scores = self.shard.from_first(self.judge.scores)
            self.patience.judge(scores["eval/score"])
            clock.mark("evaluation")
        phases = clock.read()
        row = {"iteration": self.iteration, "steps": self.steps, "seconds": self.seconds}
        row |= {"steps_per_second": taken / lasted, **{f"time/{phase}": phases.get(phase, 0.0) for phase in PHASES}}
        self.row = row = row | episodes | metrics | scores
        if self.shard.first:
            self.log.write(row)
        self._tell(row)
        clock.mark("logging")
        if due:
            self._save(scores.get("eval/score"))
            clock.mark("checkpoint")

    def _tell(self, row: dict[str, float]) -> None:
        if self.progress is not None:
            for group in self.core.groups:  # the last known value: not every rollout sees the end of an episode
                value = row[f"{group}/return_per_agent"]
                self.shown[group] = self.shown.get(group, "-") if math.isnan(value) else f"{value:.2f}"
            text = "  ".join(f"{group} {value}" for group, value in self.shown.items())
            self.progress(self.steps, f"{row['steps_per_second']:,.0f} steps/s  return per agent: {text}")

    def _kept(self) -> str:
        kept = checkpoint.every(self.out / "checkpoints")
        return f"the last checkpoint before is {kept[-1]}" if kept else "there is no checkpoint yet"

    def _save(self, score: float | None) -> None:
        """Writes a checkpoint of everything the next iteration depends on, all ranks' worlds."""
        self.saved = self.iteration
        state = whole_state(self.shard, self.collector.state_dict(), self.core, self.collector.axes)
        if not self.shard.first:
            return
        state |= {"trainer.seconds": self.seconds, "trainer.evaluations_since_best": self.patience.since}
        if math.isfinite(self.patience.best):
            state["trainer.best_score"] = self.patience.best
        policies = {name: seat.learner.policy() for name, seat in self.seats.items()}
        folder, config = self.out / "checkpoints", dataclasses.asdict(self.config)
        keep = self.config.keep_last
        path = checkpoint.save(folder, self.iteration, self.steps, config, state, policies, score, keep)
        if self.on_save is not None and self.row:  # what a resumed run begins with has been told of
            self.on_save(path, self.row)

    def _restore(self, resume: Checkpoint) -> None:
        """Puts everything back."""
        state = own_state(self.shard, resume.state, self.core, self.collector.axes)
        self.collector.load_state_dict(state)
        self.iteration, self.steps = resume.iteration, resume.steps
        self.seconds = _number(resume, "trainer.seconds")
        self.patience.since = int(_number(resume, "trainer.evaluations_since_best"))
        if "trainer.best_score" in resume.state:
            self.patience.best = _number(resume, "trainer.best_score")


def _free(out: Path | None, locked: bool) -> Path | None:
    """The folder, if no other process writes there."""
    if out is not None and not locked:
        check_free(out)
    return out


def _number(resume: Checkpoint, name: str) -> float:
    value = resume.state.get(name)
    if not isinstance(value, int | float):
        raise CheckpointError(f"{resume.path / 'manifest.json'}: {name}: expected a number, got {value!r}")
    return value


def _check_resume(config: TrainConfig, resume: Checkpoint) -> None:
    """Sees that a checkpoint is of this run and that something is left to do."""
    config.check_same_run(resume.config, str(resume.path / "manifest.json"))
    resume.check_resumable()
    if config.total_steps <= resume.steps:
        raise ConfigError(
            f"total_steps = {config.total_steps}: expected more than the {resume.steps} of {resume.path}; "
            "raise it, or see what was learned with gpu-envs eval"
        )
