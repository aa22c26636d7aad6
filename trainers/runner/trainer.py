"""The training loop: collect rollouts, update the learners, evaluate, log and save."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from gpu_envs.definition.id_modules import named_object
from gpu_envs.errors import ConfigError, HostError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.progress import Progress
from gpu_envs.utils.summaries import Summarized, Summary
from gpu_envs.utils.terminal import short_number
from trainers.base.phase_timer import PHASES
from trainers.base.serialization import write_json
from trainers.base.shard import Shard
from trainers.base.state import State
from trainers.config.train_config import CoreFactory, TrainConfig, anneal_parameters, make_train_core
from trainers.distributed.checkpoint_state import gather_state, scatter_state
from trainers.loggers.logger import CSV, Loggers, logger_classes
from trainers.runner.actors.async_collector import ActorSource, AsyncCollector, check_actors, make_collector
from trainers.runner.agent_assignment import PolicyAssignment
from trainers.runner.collector import Collector
from trainers.runner.early_stopping import EarlyStopping
from trainers.runner.episode_statistics import EpisodeStatistics, progress_text
from trainers.runner.initial_weights import begin_all
from trainers.runner.learner_group import LearnerGroup
from trainers.runner.signals import signals
from trainers.runner.train_result import ENGINE, TrainResult, recorded_engines, training_summary
from trainers.runner.training_evaluator import TrainingEvaluator
from trainers.storage import checkpoint, run_folder
from trainers.storage.checkpoint import Checkpoint
from trainers.storage.config_yaml import write_config
from trainers.storage.folder_lock import FolderLock, check_free


class Trainer(Summarized):
    """Train one learner per policy in a batch of environments, and write the files of the run.

    Inside a rollout there is no host synchronization and no Python code per agent. Metrics stay on the device and are
    read once per iteration. In a distributed training every rank has a trainer with its shard of the same run.
    """

    @torch.inference_mode(False)  # weights that are made in inference mode cannot be trained
    def __init__(
        self,
        config: TrainConfig,
        run_dir: Path | str | None = None,
        resume: Checkpoint | None = None,
        factory: CoreFactory = make_train_core,
        progress: Progress | None = None,
        on_save: Callable[[Path, Mapping[str, float]], None] | None = None,
        callback: Callable[[dict[str, float]], object] | None = None,
        shard: Shard | None = None,
        locked: bool = False,
        actors: ActorSource | None = None,
    ) -> None:
        """Create environments and learners, then open the folder of the run.

        Args:
            config: Configuration of the run.
            run_dir: Folder of the run, which must not hold another run. None: a new folder below out/, or the run's own
                folder with `resume`.
            resume: Checkpoint to continue from. Later checkpoints of the same run are moved, see
                `trainers.storage.run_folder.archive_after`. With a shard, what `load_on_rank0` returned.
            factory: Creates the environments.
            progress: Called after every iteration.
            on_save: Called after every checkpoint with its folder and the metrics of its iteration.
            callback: Called by rank 0 after every iteration with its row of metrics.csv, as those of `config.callback`.
            shard: Share of the environments of this rank, and its device. None: all environments, on `config.device`.
                Rank 0 writes the files.
            locked: The parent process holds the lock of the folder. Otherwise rank 0 holds it until `run` returns.
            actors: Creates the actors of `config.num_actors`; None: threads of this process.

        Raises:
            ConfigError: The folder holds another run or cannot be created, or no steps are left after `resume`.
            CheckpointError: `resume` does not fit `config` or has no replay, or the policies of `eval_opponents` do not
                fit the environment.
            GpuEnvsError: Another process writes in the folder.
            MissingExtraError: The library of a logger is not installed.
        """
        loggers = logger_classes((CSV, *config.logger))
        if shard is not None:
            config = dataclasses.replace(config, device=str(shard.device))
        check_actors(config, 1 if shard is None else shard.ranks)
        config.prepare()
        self.shard: Shard
        self.shard = shard = shard or Shard.split(0, 1, config.num_envs)
        self.lock: FolderLock | None = None
        path = None if run_dir is None else Path(run_dir)
        folder = shard.broadcast_from_rank0(lambda: _check_unlocked(run_folder.resolve_run_dir(path, resume), locked))
        self.config: TrainConfig = config
        self.progress: Progress | None = progress
        self.on_save: Callable[[Path, Mapping[str, float]], None] | None = on_save
        self.row: dict[str, float] = {}
        self.callbacks: list[Callable[[dict[str, float]], object]] = [
            named_object("callback", name, ["row"]) for name in config.callback
        ]
        if callback is not None:
            self.callbacks.append(callback)
        if resume is not None:
            _check_resume(config, resume)
        engines = shard.broadcast_from_rank0(lambda: _kept_engines(config, resume))
        self.core: Core = factory(config, shard.num_envs, config.seed, **shard.core_settings)
        self.learners: LearnerGroup = shard.run_on_all(
            lambda: LearnerGroup(config, self.core, shard=shard, engines=engines)
        )
        self.collector: Collector | AsyncCollector = shard.run_on_all(
            lambda: make_collector(config, self.core, self.learners, factory, actors)
        )
        self.engines: dict[str, str] = self.learners.engines
        self.reasons_for_torch: dict[str, str] = self.learners.reasons_for_torch
        self.assignments: dict[str, PolicyAssignment] = self.learners.assignments
        self.episodes: EpisodeStatistics = self.collector.episodes
        self.iteration, self.steps, self.seconds = 0, 0, 0.0
        self.stopped_by: int | None = None
        self.archived: Path | None = None
        self._saved_iteration: int | None = None
        members = {name: assignment.members for name, assignment in self.assignments.items()}
        self.evaluator: TrainingEvaluator = TrainingEvaluator(config, self.core, members, factory)
        self.early_stopping: EarlyStopping = EarlyStopping(config.patience)
        if resume is not None:
            self._restore(resume)
        else:
            shard.run_on_all(lambda: begin_all(self.learners, config))
        self.run_dir: Path = shard.broadcast_from_rank0(lambda: self._open(folder, resume, locked))
        if resume is not None and shard.broadcast_from_rank0(lambda: run_folder.is_run_of(resume, self.run_dir)):
            self._saved_iteration = resume.iteration
            self.archived = shard.broadcast_from_rank0(lambda: run_folder.archive_after(self.run_dir, self.iteration))
        elif resume is not None:  # the first checkpoint of the new run
            self._save(resume.score)
        if shard.is_rank0:
            settings = dataclasses.asdict(config)
            write_json(self.run_dir / "config.json", settings)
            write_config(self.run_dir, "train", settings)
            self.log: Loggers = Loggers(loggers, self.run_dir, self.steps, settings)

    def _summary(self) -> Summary:
        members = {name: assignment.members for name, assignment in self.assignments.items()}
        return training_summary(self.config, self.steps, members, self.engines, run_dir=self.run_dir)

    def _open(self, run_dir: Path | None, resume: Checkpoint | None, locked: bool) -> Path:
        """Create and lock the folder of the run, on rank 0."""
        if locked:
            return run_folder.make_folder(run_dir, self.config.env_id)
        path, self.lock = run_folder.open_folder(run_dir, self.config.env_id, resume)
        return path

    def run(self, keep_open: bool = False) -> Path:
        """Train until `total_steps`, `max_seconds`, `until_return` or `patience` is reached, or a signal arrives.

        Signals are SIGINT, SIGTERM and SIGHUP. After one the current iteration and its evaluation are completed, and
        `stopped_by` holds the signal.

        Args:
            keep_open: Leave the loggers open for a video; then the caller has to call `close`.

        Returns:
            The last checkpoint, which is always saved. Ranks other than 0 return the folder of the run.

        Raises:
            DivergedError: Losses, gradients or parameters are no longer finite. Earlier checkpoints are kept.
        """
        try:
            with self.config.in_force(self.learners.use_kernels), signals(self.stop):
                while not self.is_done():
                    self.iterate()
                self.save_last()
        except BaseException as error:
            keep_open = False
            if isinstance(error, HostError):  # of a host environment: the training can go on from its last iteration
                self.save_last()
            raise
        finally:
            if not keep_open:
                self.close()
        return checkpoint.find(self.run_dir) if self.shard.is_rank0 else self.run_dir

    def save_last(self) -> None:
        """Save a checkpoint unless the last iteration has one."""
        if self._saved_iteration != self.iteration:
            self._save(score=None)

    def close(self) -> None:
        """End actors, close the log and release the lock of the folder."""
        try:
            self.collector.close()
        finally:
            if self.shard.is_rank0:
                self.log.close()
            if self.lock is not None:
                self.lock.release()

    def result(self) -> TrainResult:
        """Return the result of the run, after `run`, on rank 0."""
        return TrainResult(
            config=self.config,
            run_dir=self.run_dir,
            checkpoint=checkpoint.find(self.run_dir),
            policies=self.learners.policies(),
            members={name: assignment.members for name, assignment in self.assignments.items()},
            steps=self.steps,
            seconds=self.seconds,
            recent_returns=self.episodes.recent_returns(),
            evaluations_since_best=self.early_stopping.evaluations_since_best,
            stopped_by=self.stopped_by,
            engines=self.engines,
        )

    @property
    def reached(self) -> bool:
        """Whether the mean return of the last episodes has reached `until_return` in every group."""
        goal, returns = self.config.until_return, self.episodes.recent_returns()
        return goal is not None and bool(returns) and min(returns.values()) >= goal

    def is_done(self) -> bool:
        """Return whether no iteration is left, or the training stops early; all ranks return the same."""
        if self._is_over():
            return True
        self.stopped_by = self.shard.all_reduce_max(self.stopped_by or 0) or None
        return self.stopped_by is not None or self.early_stopping.should_stop or self.reached

    def _is_over(self) -> bool:
        """Return whether all steps are taken or the time is up; all ranks return the same."""
        limit = self.config.max_seconds
        if self.iteration >= self.config.iterations or limit is None:
            return self.iteration >= self.config.iterations
        return bool(self.shard.all_reduce_max(int(self.seconds >= limit)))

    def stop(self, number: int) -> None:
        """Let the training stop after the current iteration because of a signal."""
        self.stopped_by = number
        self.collector.stop()

    def iterate(self) -> None:
        """Run one iteration: a rollout, an update of every learner, a row of metrics, and a checkpoint if one is due.

        The row holds the duration of each phase since the previous row. Logging and the checkpoint come after the row,
        so their time is in the next row.
        """
        timer, start = self.collector.timer, time.perf_counter()
        anneal_parameters(self.core, self.config.anneal, self.steps)
        if not self.collector.collect():  # stopped
            return
        timer.start()
        metrics = self.learners.update(self.iteration + 1, self._last_saved)
        timer.mark("update")
        self.collector.raise_pending_errors()
        episodes = self.episodes.read(self.learners.reducer)
        timer.mark("storage")
        self.iteration += 1
        self.steps += self.config.rollout_steps
        duration = time.perf_counter() - start
        self.seconds += duration
        scores: dict[str, float] = {}
        saves = self.iteration % self.config.checkpoint_interval == 0 or self._is_over()
        if saves and self.config.eval_episodes:
            scores = self.shard.broadcast_from_rank0(lambda: self.evaluator.scores(self.learners.policies()))
            self.early_stopping.update(scores["eval/score"])
            timer.mark("evaluation")
        phases = timer.read()
        row = {"iteration": self.iteration, "env_steps": self.steps, "seconds": self.seconds}
        row |= {"env_steps_per_second": self.config.rollout_steps / duration}
        row |= {f"time/{phase}": phases.get(phase, 0.0) for phase in PHASES}
        self.row = row = row | episodes | metrics | self.collector.metrics() | scores
        if self.shard.is_rank0:
            self.log.log(row, self.steps)
            for callback in self.callbacks:
                callback(dict(row))
        self._show_progress(row)
        timer.mark("logging")
        if saves:
            self._save(scores.get("eval/score"))
            timer.mark("checkpoint")

    def _show_progress(self, row: dict[str, float]) -> None:
        if self.progress is not None and self.stopped_by is None:  # the terminal may be gone
            texts = progress_text([self.episodes], ("episode_return", *self.episodes.names))
            rate = f"{short_number(row['env_steps_per_second'])} steps/s"
            self.progress(self.steps, "  ".join([rate, *texts]))

    def _last_saved(self) -> str:
        saved = checkpoint.every(self.run_dir / "checkpoints")
        return f"the last checkpoint before is {saved[-1]}" if saved else "there is no checkpoint yet"

    def state_dict(self) -> State:
        """Return the state of environments and learners of this rank."""
        return {**self.collector.state_dict(), **self.learners.state_dict()}

    def _save(self, score: float | None) -> None:
        """Write a checkpoint with the state of all ranks."""
        self._saved_iteration = self.iteration
        state = gather_state(self.shard, self.state_dict(), self.core, self.learners.env_axes)
        if not self.shard.is_rank0:
            return
        state |= {
            "trainer.seconds": self.seconds,
            "trainer.evaluations_since_best": self.early_stopping.evaluations_since_best,
            RULES: self.core.definition.fingerprint,
        }
        state |= {f"{ENGINE}{name}": engine for name, engine in self.engines.items()}
        if math.isfinite(self.early_stopping.best_score):
            state["trainer.best_score"] = self.early_stopping.best_score
        folder, config = self.run_dir / "checkpoints", dataclasses.asdict(self.config)
        keep, policies = self.config.keep_last_checkpoints, self.learners.policies()
        path = checkpoint.save(folder, self.iteration, self.steps, config, state, policies, score, keep)
        if self.on_save is not None and self.row:  # without a row: the copy of a resumed run's checkpoint
            self.on_save(path, self.row)

    def _restore(self, resume: Checkpoint) -> None:
        """Restore the state of a checkpoint; warn if the rules of the environment have changed since."""
        if resume.state.get(RULES, now := self.core.definition.fingerprint) != now:
            warnings.warn(
                f"the rules of {self.config.env_id} have changed since {resume.path} was saved; the run goes on with "
                "the new rules, and its earlier results are of the old ones",
                stacklevel=4,
            )
        state = scatter_state(self.shard, resume.state, self.core, self.learners.env_axes)
        self.collector.load_state_dict(state)
        self.learners.load_state_dict(state)
        self.iteration: int = resume.iteration
        self.steps: int = resume.steps
        self.seconds: float = resume.number("trainer.seconds")
        self.early_stopping.evaluations_since_best = int(resume.number("trainer.evaluations_since_best"))
        if "trainer.best_score" in resume.state:
            self.early_stopping.best_score = resume.number("trainer.best_score")


RULES = "trainer.rules_code"
"""Entry of a checkpoint's state with the fingerprint of the environment's rules. Checkpoints of earlier versions have
another fingerprint, under another name."""


def train(
    config: TrainConfig,
    run_dir: Path | str | None = None,
    *,
    resume: Checkpoint | None = None,
    progress: Progress | None = None,
    callback: Callable[[dict[str, float]], object] | None = None,
) -> TrainResult:
    """Train the policies of a configuration in this process; `gpu-envs train` does the same.

    Args:
        config: Configuration of the run, such as `trainers.preset("SimpleTag-v0", "cpu")`.
        run_dir: Folder of the run. None: a new folder below out/, or the run's own folder with `resume`.
        resume: Checkpoint to continue from, see `trainers.load_checkpoint`.
        progress: Called after every iteration with the number of steps and a line of text.
        callback: Called after every iteration with its row of metrics.csv.

    Raises:
        ConfigError: The folder holds another run or cannot be created, or no steps are left after `resume`.
        CheckpointError: `resume` does not fit `config`.
        GpuEnvsError: Another process writes in the folder, or the training diverged.
    """
    trainer = Trainer(config, run_dir, resume, progress=progress, callback=callback)
    trainer.run()
    return trainer.result()


def _check_unlocked(run_dir: Path | None, locked: bool) -> Path | None:
    """Return the folder; raise GpuEnvsError if another process writes there."""
    if run_dir is not None and not locked:
        check_free(run_dir)
    return run_dir


def _kept_engines(config: TrainConfig, resume: Checkpoint | None) -> dict[str, str]:
    """Return the engines of a resumed run by policy, which "auto" keeps on devices of the same type."""
    if resume is None or config.engine != "auto":
        return {}
    kinds = {torch.device(device).type for device in (config.device, resume.config["device"])}
    return recorded_engines(resume) if len(kinds) == 1 else {}


def _check_resume(config: TrainConfig, resume: Checkpoint) -> None:
    """Raise an error if a checkpoint is of another run or no steps are left."""
    config.check_same_run(resume.config, str(resume.path / "manifest.json"))
    resume.check_resumable()
    if config.total_steps <= resume.steps:
        raise ConfigError(
            f"total_steps: expected more than the {resume.steps} of {resume.path}, got {config.total_steps}; "
            "raise it, or see what was learned with gpu-envs eval"
        )
