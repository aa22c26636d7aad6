"""The command `gpu-envs train` with several seeds."""

from __future__ import annotations

import dataclasses
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpu_envs.definition.id_modules import import_words
from gpu_envs.errors import GpuEnvsError
from gpu_envs.utils.progress import ProgressBar
from gpu_envs.utils.terminal import shell_command
from trainers.config.train_config import TrainConfig
from trainers.runner.episode_statistics import RECENT
from trainers.runner.multi_seed import MultiSeedTrainer
from trainers.runner.signals import process_seconds
from trainers.runner.train_result import TrainResult
from trainers.storage import seed_metrics
from trainers.storage.learning_curves import plot_curves
from trainers.storage.run_folder import SeedsRecord


def train_several(
    config: TrainConfig, num_seeds: int | None, run_dir: Path | None, resume: SeedsRecord | None = None
) -> int:
    """Train several seeds at once and print their results.

    Args:
        config: Configuration of the first run.
        num_seeds: Number of runs; None: as in `resume`.
        run_dir: Folder of the runs; None: a new folder, or the folder of `resume`.
        resume: Runs to continue.

    Returns:
        The exit code of `gpu-envs train`.
    """
    count = num_seeds or (1 if resume is None else resume.num_seeds)
    total = count * config.iterations * config.rollout_steps
    progress = ProgressBar(total, "steps", file=sys.stderr)
    folder = run_dir if resume is None else resume.path
    trainer = MultiSeedTrainer(config, count, folder, resume is not None, progress=progress)
    first = next(iter(trainer.trainers.values()))
    summary = f"{config.num_envs} worlds each on {config.device}, {engine_text(first.engines, first.reasons_for_torch)}"
    summary += f", {trainer.num_workers} at a time, {trainer.run_dir}/"
    print(f"training {count} seeds on {config.env_id}: {summary}", flush=True)
    with progress:
        results = trainer.run()
    return _report(trainer.run_dir, results)


def engine_text(engines: Mapping[str, str], reasons: Mapping[str, str]) -> str:
    """Return the engines of learners by policy as text, with the reasons why PyTorch is the engine."""
    texts = {name: f"{engine} ({reasons[name]})" if reasons[name] else engine for name, engine in engines.items()}
    if len(set(texts.values())) == 1:
        text = next(iter(texts.values()))
        return text if text.startswith("rollouts") else f"engine {text}"
    return "engines " + "; ".join(f"{name}={text}" for name, text in texts.items())


def print_end_by_signal(results: Sequence[TrainResult], saved: str, folder: Path) -> None:
    """Print the signal that ended runs, what was saved, and how to continue if steps are left."""
    config = results[0].config
    number = next(result.stopped_by for result in results if result.stopped_by)
    text = f"{signal.Signals(number).name}: saved {saved}"
    if any(result.steps < config.iterations * config.rollout_steps for result in results):
        imports = import_words(dataclasses.asdict(config))
        text += f"; continue with:\n  {shell_command('gpu-envs', 'train', '--resume', folder, *imports)}"
    print(text)


def write_optional(name: str, write: Callable[[], Path | None]) -> list[Path]:
    """Return the file that `write` wrote; print an error instead of raising it, since the training has succeeded."""
    try:
        file = write()
    except (GpuEnvsError, OSError) as error:
        print(f"no {name}: {error}")
        return []
    return [] if file is None else [file]


def _report(folder: Path, results: list[TrainResult]) -> int:
    """Print the result of every seed and their means; return the exit code."""
    config, stopped_by = results[0].config, next((run.stopped_by for run in results if run.stopped_by), None)
    imports = import_words(dataclasses.asdict(config))
    for result in results:
        print(f"  {result.run_dir.name}: {_description(result)}")
    if stopped_by is not None:
        print_end_by_signal(results, f"{len(results)} runs", folder)
    else:
        _print_means(results)
    written = [folder / "summary.json", folder / "mean_metrics.csv"]
    if config.until_return is None or stopped_by is not None:
        table = folder / "mean_metrics.csv"
        written += write_optional("curves", lambda: plot_curves(table, folder / "curves.png", config.env_id))
    for file in written:
        print(f"  {file}")
    if stopped_by is not None:
        return 128 + stopped_by
    if "tensorboard" in config.logger:
        print(f"  {shell_command('tensorboard', '--logdir', folder)}")
    print(f"  {shell_command('gpu-envs', 'eval', folder, *imports)}")
    print(f"  {shell_command('gpu-envs', 'watch', folder, *imports)}")
    return int(any(result.reached_goal is False for result in results))


def _description(result: TrainResult) -> str:
    """Return steps, returns and the reason of the end of a run."""
    text = f"{result.steps:,} steps"
    if result.recent_returns:
        text += ", return per agent: " + ", ".join(
            f"{group} {value:.2f}" for group, value in result.recent_returns.items()
        )
    if result.stopped_by is None and result.reached_goal is False:
        text += ", goal not reached"
    return text + (", stopped early" if result.stopped_early else "")


def _print_means(results: list[TrainResult]) -> None:
    """Print the means over seeds with their 95 % intervals."""
    count, goal = len(results), results[0].config.until_return
    if goal is not None:
        reached = [result for result in results if result.reached_goal]
        print(f"{len(reached)} of {count} runs reached {goal:g}, {process_seconds():.1f} s from process start")
        if reached:
            print(f"steps to the goal: {_interval([float(result.steps) for result in reached], ',.0f')}")
    for group in results[0].recent_returns:
        values = [result.recent_returns[group] for result in results if group in result.recent_returns]
        print(f"{group}: mean return per agent over {RECENT} episodes {_interval(values, '.2f')}")


def _interval(values: list[float], form: str) -> str:
    mean, half = seed_metrics.mean_and_interval(values)
    runs = "1 run" if len(values) == 1 else f"{len(values)} runs"
    return f"{mean:{form}} ({runs})" if len(values) == 1 else f"{mean:{form}} ± {half:{form}} ({runs})"
