"""The subcommands `gpu-envs train`, `eval` and `export`."""

from __future__ import annotations

import dataclasses
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gpu_envs.commands import settings
from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from gpu_envs.factory import resolve_device
from gpu_envs.id_modules import import_option
from gpu_envs.paths import check_file
from gpu_envs.progress import ProgressBar
from trainers import algorithms, checkpoint, runs
from trainers.arguments import (
    FINAL_SEED,
    SHARED,
    EvalArgs,
    ExportArgs,
    TrainArgs,
    check_id,
    parse,
    parse_train,
    policy_names,
)
from trainers.checkpoint import Checkpoint
from trainers.config import TrainConfig, make_eval_core, members_by_policy
from trainers.episodes import RECENT, mean_returns
from trainers.evaluate import Outcome, Players, by_member, crossplay, matchups, opponents, policies_of, table
from trainers.files import write_json
from trainers.logs import plot_curves
from trainers.loop import Trainer
from trainers.policy import Policy
from trainers.scripted import SCRIPTED, ScriptedPolicy
from trainers.settings import check_settings
from trainers.stopping import process_seconds
from trainers.video import MAX_FRAMES, record

FINAL_EPISODES = 256
"""Episodes per matchup of the table at the end of a training."""


def train_command(argv: list[str]) -> int:
    """Train policies, one per group of agents.

    `gpu-envs train ID ...` returns 0, 1 where a goal was not reached, or 128 + n when signal n ended the run.
    """
    args, resume = parse_train(argv)
    config = _config(args)
    with config.in_force():  # for the evaluation at the end too
        if args.shards is not None or args.cluster is not None:
            resume = resume and dataclasses.replace(resume, state={})  # the first worker reads it
            return _train_on_cluster(config, args, resume)
        return _train(config, args, resume)


def _train(config: TrainConfig, args: TrainArgs, resume: Checkpoint | None) -> int:
    progress = ProgressBar(config.iterations * config.rollout_steps, "steps", file=sys.stderr)
    trainer = Trainer(config, args.out, resume, progress=progress)
    out, what = trainer.out, f"{', '.join(trainer.seats)} on {config.env_id}"
    if trainer.aside is not None:
        print(f"what came after iteration {trainer.iteration} is now in {trainer.aside}/")
    print(f"training {what}: {config.num_envs} worlds on {trainer.core.device}, {out}/", flush=True)
    with progress:
        last = trainer.run()
    written = [out / "metrics.csv", out / "config.json"]
    if config.until_return is None or trainer.stopped_by is not None:
        written += _optional("curves", lambda: plot_curves(out / "metrics.csv", out / "curves.png"))
    if trainer.stopped_by is not None:
        name, option = signal.Signals(trainer.stopped_by).name, import_option(config.env_id)
        left = trainer.iteration < config.iterations
        print(f"{name}: saved {last}" + (f"; continue with: gpu-envs train --resume {out}{option}" if left else ""))
        return 128 + trainer.stopped_by
    print(f"trained {trainer.steps:,} steps in {trainer.seconds:.0f} s")
    if trainer.patience.over:
        best = checkpoint.best(out / "checkpoints")
        print(f"stopped early: {trainer.patience.since} evaluations without a better score; the best is {best}")
    trained = {name: seat.learner.policy() for name, seat in trainer.seats.items()}
    sides = {name: seat.members for name, seat in trainer.seats.items()}
    reached = _goal(config, trainer.episodes.recent_returns(), trainer.steps)
    _show(config, args, last, sides, trained, written)
    return int(not reached)


def _train_on_cluster(config: TrainConfig, args: TrainArgs, resume: Checkpoint | None) -> int:
    from trainers.cluster.connect import ray_library
    from trainers.cluster.data_parallel import train

    ray_library("gpu-envs train --shards")
    out = runs.choose(args.out, resume) or runs.make_folder(None, config.env_id)
    print(f"training on {config.env_id}: {config.num_envs} worlds, {out}/; tensorboard --logdir {out}", flush=True)
    last = train(config, out, args.shards, args.cluster, resume=resume)
    if config.device.startswith("cuda"):  # the workers': what follows plays on what there is here
        config = dataclasses.replace(config, device=str(resolve_device(None)))
    saved, core = checkpoint.load(last, replay=False), make_eval_core(config, 1, FINAL_SEED)
    sides = members_by_policy(config, core)
    print(f"trained {saved.steps:,} steps")
    recent = saved.state["episodes.recent"]
    assert isinstance(recent, torch.Tensor)
    reached = _goal(config, mean_returns(recent, list(core.groups)), saved.steps)
    trained = {name: saved.policy(name, config.device) for name in sides}
    written = [last.parent.parent / "metrics.csv", last.parent.parent / "config.json"]
    if config.until_return is None:
        written += _optional("curves", lambda: plot_curves(written[0], written[0].with_name("curves.png")))
    _show(config, args, last, sides, trained, written)
    return int(not reached)


def _show(
    config: TrainConfig,
    args: TrainArgs,
    last: Path,
    sides: Mapping[str, Sequence[str]],
    trained: Mapping[str, Policy],
    written: list[Path],
) -> None:
    """Plays what was learned, for the table and the video, and lists all files of a finished training."""
    out = last.parent.parent
    if config.eval_episodes and config.until_return is None:
        core = make_eval_core(config, FINAL_EPISODES, FINAL_SEED)
        results = _crossplay(core, sides, trained, None, FINAL_SEED)
        write_json(out / "crossplay.json", _as_json(results))
        written.append(out / "crossplay.json")
    if args.video:
        players = {member: trained[name] for name, members in sides.items() for member in members}
        core = make_eval_core(config, 4, FINAL_SEED)
        with ProgressBar(MAX_FRAMES, "frames", file=sys.stderr) as progress:
            written += _optional(
                "video", lambda: record(core, players, out / "video.mp4", FINAL_SEED, progress=progress)
            )
    for file in (*written, last):
        print(f"  {file}")
    print(f"  tensorboard --logdir {out}")
    print(f"  gpu-envs watch {out}{import_option(config.env_id)}")


def _goal(config: TrainConfig, recent: Mapping[str, float], steps: int) -> bool:
    """Whether the goal was reached, if there is one, which a line tells then."""
    goal = config.until_return
    if goal is None:
        return True
    means = ", ".join(f"{group} {value:.2f}" for group, value in recent.items())
    said = f"mean return per agent over {RECENT} episodes: {means}" if recent else f"fewer than {RECENT} episodes ended"
    reached = bool(recent) and min(recent.values()) >= goal
    when = f"reached {goal:g} after {steps:,} steps, {process_seconds():.1f} s from process start"
    print(f"{when if reached else f'not reached: {goal:g} in {steps:,} steps'} ({said})", flush=True)
    return reached


def _config(args: TrainArgs) -> TrainConfig:
    """The run that the arguments describe."""
    against = None if args.eval_against is None else str(checkpoint.find(Path(args.eval_against)).resolve())
    return TrainConfig(
        env_id=args.id,
        env=settings(args.env, options={name: f"--{name.replace('_', '-')}" for name in SHARED}),
        policies=policy_names(args.policy),
        learner=algorithms.find(args.algorithm).settings(**vars(args.learner)),
        **{**{name: getattr(args, name) for name in SHARED}, "eval_against": against},
    )


def _optional(what: str, make: Callable[[], Path | None]) -> list[Path]:
    """The file that `make` wrote; a missing library or a full disk must not make a finished training look failed."""
    try:
        file = make()
    except (GpuEnvsError, OSError) as error:
        print(f"no {what}: {error}")
        return []
    return [] if file is None else [file]


def _crossplay(
    core: Core,
    sides: Mapping[str, Sequence[str]],
    trained: Mapping[str, Policy],
    other: Players | None,
    seed: int,
    greedy: bool = False,
) -> list[tuple[dict[str, str], Outcome]]:
    """Plays every matchup under a progress bar and prints the table."""
    total = core.num_envs * len(matchups(list(sides), other is not None))
    with ProgressBar(total, "episodes", file=sys.stderr) as progress:
        results = crossplay(core, sides, trained, other, seed, greedy, progress)
    print(table(results))
    return results


def eval_command(argv: list[str]) -> int:
    """Play trained policies against random or other ones, and print the cross-play table.

    `gpu-envs eval PATH ...` returns 0.
    """
    args = parse(EvalArgs, "eval", argv)
    check_settings(args, "--")
    if args.out is not None:
        check_file(args.out)
    saved = checkpoint.load(args.path)
    config = TrainConfig.of(saved)
    check_id(saved, config.env_id, args.id)
    env = config.env | settings(args.env, options={"num_envs": "--episodes", "seed": "--seed", "device": "--device"})
    config = dataclasses.replace(config, env=env, device=str(resolve_device(args.device)))
    config.use_threads()
    core = make_eval_core(config, args.episodes, args.seed)
    sides = members_by_policy(config, core)
    if algorithms.find(config.algorithm).recorded:  # nobody need have cloned all of them; the rest play at random
        sides = {name: members for name, members in sides.items() if name in saved.policies}
    trained = policies_of(saved, sides, core)
    lines = [f"trained: {saved.path} (step {saved.steps:,})"]
    other: Players | None = None
    if args.against == Path(SCRIPTED):
        other = {member: ScriptedPolicy(core, member) for members in sides.values() for member in members}
        lines.append("other: scripted")
    elif args.against is not None:
        opponent, policies = opponents(args.against, config.env_id, sides, core)
        other = by_member(sides, policies)
        lines.append(f"other: {opponent.path} (step {opponent.steps:,})")
    print("\n".join(lines))
    results = _crossplay(core, sides, trained, other, args.seed, args.greedy)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.out, _as_json(results))
    return 0


def export_command(argv: list[str]) -> int:
    """Write a trained policy as a program of torch.export.

    `gpu-envs export PATH FILE ...` returns 0.
    """
    from trainers.export import export_policy  # torch's exporter takes a second to import

    args = parse(ExportArgs, "export", argv)
    check_file(args.out)
    if args.out.suffix != ".pt2":
        raise ConfigError(f"{args.out}: expected a file that ends in .pt2, as torch.export calls them")
    saved = checkpoint.load(args.path)
    config = dataclasses.replace(TrainConfig.of(saved), device="cpu")
    check_id(saved, config.env_id, args.id)
    core = make_eval_core(config, 1, config.seed)
    sides = members_by_policy(config, core)
    name = saved.name_of(args.policy)
    if name not in sides:
        raise CheckpointError(f"{saved.path}: expected policies of {', '.join(sides)} as in its settings, got {name}")
    policy = policies_of(saved, {name: sides[name]}, core)[name]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    program = export_policy(policy, args.out, masked=core.action_mask is not None)
    print(f"{args.out}: {name} of {saved.path}, {program}")
    return 0


def _as_json(results: Sequence[tuple[dict[str, str], Outcome]]) -> dict[str, Any]:
    return {"matchups": [{"policies": matchup, **dataclasses.asdict(outcome)} for matchup, outcome in results]}
