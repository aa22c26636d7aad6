"""The command `gpu-envs train`."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpu_envs.definition.id_modules import import_words
from gpu_envs.runtime.core import Core
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.progress import ProgressBar
from gpu_envs.utils.terminal import shell_command, terminal_width
from trainers.base.serialization import write_json
from trainers.cli.config_file import env_settings
from trainers.cli.options import (
    TrainOptions,
    parse_train,
)
from trainers.cli.train_seeds import engine_text, print_end_by_signal, train_several, write_optional
from trainers.config.train_config import TrainConfig, make_eval_core
from trainers.evaluation.cross_play import as_json, play, table
from trainers.evaluation.policy_evaluation import by_member, find_metrics
from trainers.loggers.logger import Loggers, logger_classes
from trainers.models.policy import PolicyProtocol
from trainers.models.policy_set import PolicyRunner
from trainers.runner.actors.async_collector import ActorSource
from trainers.runner.episode_statistics import RECENT
from trainers.runner.signals import process_seconds
from trainers.runner.train_result import TrainResult, load_result
from trainers.runner.trainer import Trainer
from trainers.runner.training_evaluator import FINAL_SEED
from trainers.storage import run_folder
from trainers.storage.checkpoint import Checkpoint
from trainers.storage.config_yaml import CONFIG_FILE, format_config
from trainers.storage.learning_curves import plot_curves
from trainers.storage.run_folder import SeedsRecord

FINAL_EPISODES = 256
"""Largest number of episodes per matchup of the table at the end of a training."""
MAX_FRAMES = 600
"""Largest number of frames of the video at the end of a training."""


def train_command(argv: list[str]) -> int:
    """Train policies by reinforcement learning, one per group of agents.

    The exit code is 0, 1 if the goal of --until-return was not reached, or 128 + n if signal n ended the run. With
    several seeds, each run has to reach the goal.
    """
    config, args, resume = parse_train(argv)
    if args.print_config:
        print(format_config(_settings(config, args)), end="")
        return 0
    if isinstance(resume, SeedsRecord) or (resume is None and args.num_seeds is not None):
        return train_several(config, args.num_seeds, args.run_dir, resume)
    with config.in_force():  # for the evaluation at the end too
        if args.num_workers is not None or (args.ray_address is not None and not config.num_actors):
            classes = logger_classes(config.logger)  # a missing library is an error before the training
            result = _train_on_cluster(config, args, resume)
            loggers = Loggers(classes, result.run_dir, result.steps, dataclasses.asdict(result.config))
            with contextlib.closing(loggers):  # the first worker has closed its own
                return report_training(result, args.video, loggers)
        else:
            progress = ProgressBar(config.iterations * config.rollout_steps, "steps", file=sys.stderr)
            actors = None if args.ray_address is None else _actors_on_cluster(config, args.ray_address)
            trainer = Trainer(config, args.run_dir, resume, progress=progress, actors=actors)
            _print_start(trainer)
            with progress:
                trainer.run(keep_open=True)
            with contextlib.closing(trainer):
                return report_training(trainer.result(), args.video, trainer.log)


def _actors_on_cluster(config: TrainConfig, address: str) -> ActorSource:
    from trainers.cluster.ray_actors import ray_actors

    return ray_actors(address, gpus_per_actor=float((config.actor_device or config.device).startswith("cuda")))


def _print_start(trainer: Trainer) -> None:
    if trainer.archived is not None:
        print(f"what came after iteration {trainer.iteration} is now in {trainer.archived}/")
    config, policies = trainer.config, ", ".join(trainer.assignments)
    actors = f"{config.num_actors} actors x " if config.num_actors else ""
    engine = engine_text(trainer.engines, trainer.reasons_for_torch)
    summary = f"{actors}{config.num_envs} worlds on {trainer.core.device}, {engine}, {trainer.run_dir}/"
    print(f"training {policies} on {config.env_id}: {summary}", flush=True)


def _train_on_cluster(config: TrainConfig, args: TrainOptions, resume: Checkpoint | None) -> TrainResult:
    from trainers.cluster.connect import ray_library
    from trainers.cluster.ray_train import train_distributed

    ray_library("gpu-envs train --num-workers")
    resume = resume and dataclasses.replace(resume, state={})  # the first worker reads it
    out = run_folder.resolve_run_dir(args.run_dir, resume) or run_folder.make_folder(None, config.env_id)
    board = shell_command("tensorboard", "--logdir", out)
    print(f"training on {config.env_id}: {config.num_envs} worlds, {out}/; {board}", flush=True)
    last = train_distributed(config, out, args.num_workers, args.ray_address, resume=resume)
    # the final evaluation runs on a device of this machine
    return load_result(last, str(resolve_device(None)) if config.device.startswith("cuda") else config.device)


def report_training(result: TrainResult, video: bool, loggers: Loggers) -> int:
    """Print the result of a training, and write its learning curves, its cross-play table and its video.

    Args:
        result: Result of the training.
        video: Record a video.
        loggers: Open loggers of the training, which receive the video.

    Returns:
        The exit code of `gpu-envs train`.
    """
    config, out = result.config, result.run_dir
    imports = import_words(dataclasses.asdict(config))
    written = [out / "metrics.csv", out / "config.json", out / CONFIG_FILE]
    if config.until_return is None or result.stopped_by is not None:
        written += write_optional("curves", lambda: plot_curves(out / "metrics.csv", out / "curves.png", config.env_id))
    if result.stopped_by is not None:
        print_end_by_signal([result], str(result.checkpoint), out)
        return 128 + result.stopped_by
    print(f"trained {result.steps:,} steps in {result.seconds:.0f} s")
    if result.stopped_early:
        count, best = result.evaluations_since_best, result.best_checkpoint
        print(f"stopped early: {count} evaluations without a better score; the best is {best}")
    if config.until_return is not None:
        _print_goal(result, config.until_return)
    elif config.eval_episodes:
        core = make_eval_core(config, min(4 * config.eval_episodes, FINAL_EPISODES), FINAL_SEED)
        metrics = find_metrics(config.eval_metric)
        results = play(core, result.members, result.policies, None, FINAL_SEED, metrics=metrics)
        print(table(results, terminal_width(sys.stdout)))
        write_json(out / "cross_play.json", as_json(results))
        written.append(out / "cross_play.json")
    if video:
        players = by_member(result.members, result.policies)
        files = write_optional("video", lambda: _record_video(make_eval_core(config, 4, FINAL_SEED), players, out))
        for file in files:
            loggers.log_video(file, result.steps)
        written += files
    for file in (*written, result.checkpoint):
        print(f"  {file}")
    if "tensorboard" in config.logger:
        print(f"  {shell_command('tensorboard', '--logdir', out)}")
    print(f"  {shell_command('gpu-envs', 'watch', out, *imports)}")
    return int(result.reached_goal is False)


def _record_video(core: Core, players: Mapping[str, PolicyProtocol], out: Path) -> Path:
    """Play one episode in every environment, and write video.mp4 with all environments side by side."""
    from gpu_envs.rendering.trails import TrailRenderer
    from gpu_envs.rendering.video import tile, write_video

    def frames(progress: ProgressBar) -> Iterator[np.ndarray]:
        renderer = TrailRenderer(core, tuple(range(core.num_envs)), 256)
        obs, info = core.reset(seed=FINAL_SEED)
        runner = PolicyRunner(core, players)
        for policy in players.values():
            policy.seed(FINAL_SEED)
        finished = torch.zeros_like(core.alive)
        for count in range(1, MAX_FRAMES + 1):
            yield tile(renderer.frame())
            obs, _, terminated, truncated, info = core.step(runner.act(obs, info))
            finished |= terminated | truncated
            is_over = bool(finished.all())
            progress(MAX_FRAMES if is_over else count, "video")
            if is_over:
                return

    with ProgressBar(MAX_FRAMES, "frames", file=sys.stderr) as progress:
        return write_video(out / "video.mp4", frames(progress), core.render_fps)


def _print_goal(result: TrainResult, goal: float) -> None:
    """Print whether every group reached the mean return of `--until-return`."""
    means = ", ".join(f"{group} {value:.2f}" for group, value in result.recent_returns.items())
    text = f"mean return per agent over {RECENT} episodes: {means}" if means else f"fewer than {RECENT} episodes ended"
    when = f"reached {goal:g} after {result.steps:,} steps, {process_seconds():.1f} s from process start"
    print(f"{when if result.reached_goal else f'not reached: {goal:g} in {result.steps:,} steps'} ({text})", flush=True)


def _settings(config: TrainConfig, args: TrainOptions) -> dict[str, Any]:
    """Return all settings of a run as in a configuration file, with the environment's defaults."""
    env = env_settings(config.env_id, config.env)
    names = ("num_seeds", "num_workers", "run_dir", *(("video",) if args.num_seeds is None else ()))
    values = {name: getattr(args, name) for name in names}
    more = {name: value for name, value in values.items() if value is not None}
    return {**dataclasses.asdict(config), "env": env, **more}
