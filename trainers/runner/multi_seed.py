"""Train a configuration with several seeds at once in one process."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.kernels import available_cores, limited_cores
from gpu_envs.utils.progress import Progress
from gpu_envs.utils.summaries import Summarized, Summary
from trainers.base.serialization import write_json
from trainers.config.train_config import CoreFactory, TrainConfig, make_train_core
from trainers.runner.early_stopping import DivergedError
from trainers.runner.episode_statistics import progress_text
from trainers.runner.signals import signals
from trainers.runner.train_result import TrainResult, load_result
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint, run_folder, seed_metrics
from trainers.storage.config_yaml import write_config
from trainers.storage.folder_lock import LOCK, FolderLock, check_free
from trainers.storage.learning_curves import read_rows

PROGRESS_INTERVAL = 0.1
"""Shortest time between two calls of the progress function [s]."""


class MultiSeedTrainer(Summarized):
    """Train independent runs of one configuration whose seeds follow each other, and write a folder with all of them.

    On a CPU, threads take turns with the runs, one iteration at a time. Kernels run outside of Python's global lock, so
    several runs compute at the same time. A run uses `config.num_threads` cores, or one if that is 0; with fewer runs
    than cores, kernels share the rest. On a GPU, one thread takes turns with all runs. Every run equals the run alone
    with its seed, bit for bit.
    """

    def __init__(
        self,
        config: TrainConfig,
        num_seeds: int,
        run_dir: Path | str | None = None,
        resume: bool = False,
        factory: CoreFactory = make_train_core,
        progress: Progress | None = None,
    ) -> None:
        """Open the folder of the runs, and create the trainers.

        Args:
            config: Configuration of the first run.
            num_seeds: Number of runs.
            run_dir: Folder of the runs. None: a new folder below out/.
            resume: Continue the runs in `run_dir`, and start those that are new.
            factory: Creates the environments.
            progress: Called after iterations with the number of steps of all runs and a line of text.

        Raises:
            ConfigError: `num_seeds` is not valid, the folder holds another run, or no steps are left after `resume`.
            CheckpointError: The runs in the folder do not fit `config`.
            GpuEnvsError: Another process writes in the folder.
        """
        if num_seeds < 1:
            raise ConfigError(f"num_seeds: expected an int >= 1, got {num_seeds}")
        if config.num_actors:
            raise ConfigError(f"num_actors: expected 0 with several seeds, got {config.num_actors}; use one seed")
        on_cpu = config.device == "cpu"
        if on_cpu and config.num_threads == 0:
            config = dataclasses.replace(config, num_threads=1)
        config.prepare()
        self.config: TrainConfig = config
        self.progress: Progress | None = progress
        cores, threads = available_cores(), max(config.num_threads, 1)
        self.num_workers: int = max(min(cores // threads, num_seeds), 1) if on_cpu else 1
        self.cores_per_run: int = max(cores // self.num_workers, 1)
        folder = None if run_dir is None else Path(run_dir)
        configs = [dataclasses.replace(config, seed=config.seed + number) for number in range(num_seeds)]
        if resume:
            assert folder is not None
            _check_resume(folder, config, num_seeds)
        elif folder is not None:
            run_folder.check_no_seeds(folder)
        self.run_dir: Path = run_folder.make_folder(folder, config.env_id)
        self.results: dict[int, TrainResult] = {}
        self.trainers: dict[int, Trainer] = {}
        self._waiting: deque[Trainer] = deque()
        self._diverged: dict[int, DivergedError] = {}
        self._failures: list[Exception] = []
        self._aborted = False
        self._stopped_by: int | None = None
        self._last_shown, self._showing = 0.0, threading.Lock()
        self._lock = FolderLock(self.run_dir, take_over=True)
        try:
            with config.in_force(), limited_cores(self.cores_per_run):
                for c in configs:
                    self._open(c, resume, factory)
            if not self.trainers:
                steps = next(iter(self.results.values())).steps
                raise ConfigError(
                    f"total_steps: expected more than the {steps} of all runs in {self.run_dir}, "
                    f"got {config.total_steps}; raise it, or see what was learned with gpu-envs eval"
                )
            run_folder.write_seeds(self.run_dir, num_seeds, dataclasses.asdict(config))
            write_config(self.run_dir, "train", {**dataclasses.asdict(config), "num_seeds": num_seeds})
        except BaseException:
            self._close()
            if not (self.run_dir / checkpoint.SEEDS).is_file():  # a failed start leaves no empty folder
                (self.run_dir / LOCK).unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    self.run_dir.rmdir()
            raise

    def _open(self, config: TrainConfig, resume: bool, factory: CoreFactory) -> None:
        """Create the trainer of a seed, or read the result of its completed run."""
        folder, saved = self.run_dir / run_folder.run_name(config.seed), None
        if resume and checkpoint.every(folder / "checkpoints"):
            saved = checkpoint.load(folder)
            if saved.steps >= config.total_steps:
                self.results[config.seed] = load_result(saved.path, config.device, factory)
                return
        elif resume and folder.exists():  # the process was killed before the first checkpoint
            check_free(folder)
            shutil.rmtree(folder)
        trainer = Trainer(config, folder, saved, factory)
        self.trainers[config.seed] = trainer
        self._waiting.append(trainer)

    def _summary(self) -> Summary:
        runs = {trainer.config.seed: trainer.steps for trainer in self.trainers.values()}
        runs |= {result.config.seed: result.steps for result in self.results.values()}
        rows = [(f"seed {seed}", f"{steps:,} of {self.config.total_steps:,}") for seed, steps in sorted(runs.items())]
        facts = {"algorithm": self.config.algorithm, "worlds": self.config.num_envs, "device": self.config.device}
        return Summary(self.config.env_id, {**facts, "run_dir": self.run_dir}, ("run", "steps"), rows)

    def run(self) -> list[TrainResult]:
        """Train all runs until each is complete, or until SIGINT, SIGTERM or SIGHUP arrives.

        After a signal every run completes its current iteration and saves a checkpoint.

        Returns:
            Results in the order of the seeds.

        Raises:
            DivergedError: Runs have diverged; the other runs are complete.
        """
        kernels = any(trainer.learners.use_kernels for trainer in self.trainers.values())
        try:
            with self.config.in_force(kernels), signals(self._stop):
                self._train()
        finally:
            self._close()
        self._write_summary()
        if self._diverged:
            seed, error = next(iter(self._diverged.items()))
            suffix = f"; {len(self._diverged)} runs diverged" if len(self._diverged) > 1 else ""
            raise DivergedError(f"seed {seed}: {error}{suffix}; the other runs are complete") from error
        return [self.results[seed] for seed in sorted(self.results)]

    def _train(self) -> None:
        """Let this thread and others take turns with the runs."""
        helpers = [threading.Thread(target=self._work, name="train_seeds") for _ in range(self.num_workers - 1)]
        for helper in helpers:
            helper.start()
        try:
            self._work()
            for helper in helpers:
                helper.join()
        except BaseException:  # such as KeyboardInterrupt by a second signal
            self._aborted = True
            for helper in helpers:
                helper.join()
            raise
        if self._failures:
            raise self._failures[0]
        self._show_progress()  # the last two runs may have been completed at the same time

    def _work(self) -> None:
        """Run iterations of waiting runs until every other run is in the hands of another thread."""
        with limited_cores(self.cores_per_run):
            while not (self._failures or self._aborted):
                try:
                    trainer = self._waiting.popleft()
                except IndexError:
                    return
                try:
                    if self._advance(trainer):
                        self._waiting.append(trainer)
                except DivergedError as error:
                    self._diverged[trainer.config.seed] = error
                except Exception as error:  # noqa: BLE001  # raised by `_train`
                    self._failures.append(error)
                self._show_progress()

    def _advance(self, trainer: Trainer) -> bool:
        """Run an iteration, or complete the run; return whether the run continues."""
        if self._stopped_by is not None:
            trainer.stop(self._stopped_by)
        if not trainer.is_done():
            trainer.iterate()
            return True
        trainer.save_last()
        self.results[trainer.config.seed] = trainer.result()
        trainer.close()
        return False

    def _stop(self, number: int) -> None:
        self._stopped_by = number

    def _close(self) -> None:
        """Close the logs, and release the locks."""
        for trainer in self.trainers.values():
            trainer.close()
        self._lock.release()

    @property
    def total_steps(self) -> int:
        """Environment steps of all runs, if none stops early."""
        return self.num_seeds * self._steps_per_run

    @property
    def _steps_per_run(self) -> int:
        return self.config.iterations * self.config.rollout_steps

    @property
    def num_seeds(self) -> int:
        """Number of runs."""
        return len(self.trainers.keys() | self.results.keys())

    def _show_progress(self) -> None:
        """Report the steps of all runs, and the mean over runs of the return of their last episodes."""
        if self.progress is None or not self._showing.acquire(blocking=False):
            return
        try:
            if self._stopped_by is not None:  # the terminal may be gone
                return
            now = time.perf_counter()
            if now - self._last_shown < PROGRESS_INTERVAL and len(self.results) < self.num_seeds:
                return
            self._last_shown = now
            complete = {seed for seed, result in self.results.items() if result.stopped_by is None}
            complete |= self._diverged.keys()
            running = sum(trainer.steps for seed, trainer in self.trainers.items() if seed not in complete)
            text = "  ".join(f"{group} {value}" for group, value in self._recent_returns().items())
            over, statistics = len(complete), [trainer.episodes for trainer in self.trainers.values()]
            texts = [f"{over} of {self.num_seeds} runs complete", f"return per agent: {text}"]
            texts += progress_text(statistics, statistics[0].names)
            self.progress(over * self._steps_per_run + running, "  ".join(texts))
        finally:
            self._showing.release()

    def _recent_returns(self) -> dict[str, str]:
        """Return the mean over runs of the return of their last episodes, with its interval, by group."""
        recent = [trainer.episodes.recent for trainer in self.trainers.values()]
        means = [returns.mean(0).tolist() for returns in recent if len(returns)]
        texts = {}
        for index, group in enumerate(next(iter(self.trainers.values())).core.groups):
            if values := [mean[index] for mean in means]:
                mean, half = seed_metrics.mean_and_interval(values)
                texts[group] = f"{mean:.2f}" if len(values) < 2 else f"{mean:.2f} ± {half:.2f}"
        return texts

    def _write_summary(self) -> None:
        """Write mean_metrics.csv and summary.json."""
        names = {seed: run_folder.run_name(seed) for seed in sorted(self.results)}
        rows = {seed: read_rows(self.run_dir / name / "metrics.csv") for seed, name in names.items()}
        if not rows:
            return
        seed_metrics.write_rows(self.run_dir / "mean_metrics.csv", seed_metrics.mean_rows(list(rows.values())))
        last = {seed: seed_metrics.last_values(table) for seed, table in rows.items()}
        metrics: dict[str, Any] = {}
        for name in dict.fromkeys(name for values in last.values() for name in values if name != "iteration"):
            mean, half = seed_metrics.mean_and_interval([values[name] for values in last.values() if name in values])
            metrics[name] = {"mean": mean, "ci_half_width": half if half == half else None}
        runs = [self._summary_of(self.results[seed]) for seed in names]
        write_json(self.run_dir / "summary.json", {"runs": runs, "last_metrics": metrics})

    def _summary_of(self, result: TrainResult) -> dict[str, Any]:
        return {
            "seed": result.config.seed,
            "run_dir": result.run_dir.name,
            "checkpoint": f"{result.checkpoint.parent.name}/{result.checkpoint.name}",
            "env_steps": result.steps,
            "seconds": result.seconds,
            "recent_returns": dict(result.recent_returns),
            "reached_goal": result.reached_goal,
            "stopped_early": result.stopped_early,
            "stopped_by": result.stopped_by,
            "engines": dict(result.engines),
        }


def train_seeds(
    config: TrainConfig,
    num_seeds: int,
    run_dir: Path | str | None = None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> list[TrainResult]:
    """Train independent runs with the seeds `config.seed`, `config.seed` + 1, ..., at once in this process.

    Each run equals `trainers.train` with its seed, bit for bit; with PyTorch's gradients, if both use the same number
    of threads. `gpu-envs train --num-seeds` does the same. The folder has an ordinary run per seed, such as seed-0/,
    means over runs with 95 % confidence intervals by iteration, mean_metrics.csv, and summary.json.

    Args:
        config: Configuration of the first run. On a CPU each run uses `config.num_threads` cores, or one if that is 0.
        num_seeds: Number of runs.
        run_dir: Folder of the runs. None: a new folder below out/.
        resume: Continue the runs in `run_dir`, and start those that are new.
        progress: Called after iterations with the number of steps of all runs and a line of text.

    Returns:
        Results in the order of the seeds.

    Raises:
        ConfigError: `num_seeds` is not valid, the folder holds another run, or no steps are left after `resume`.
        CheckpointError: The runs in the folder do not fit `config`.
        GpuEnvsError: Another process writes in the folder, or a run diverged; then the others are complete.
    """
    return MultiSeedTrainer(config, num_seeds, run_dir, resume, progress=progress).run()


def _check_resume(run_dir: Path, config: TrainConfig, num_seeds: int) -> None:
    """Raise an error unless the runs in a folder can continue with a configuration."""
    record = run_folder.read_seeds(run_dir)
    config.check_same_run(record.config, str(run_dir / checkpoint.SEEDS))
    if num_seeds < record.num_seeds:
        raise ConfigError(f"num_seeds: expected at least the {record.num_seeds} runs in {run_dir}, got {num_seeds}")
