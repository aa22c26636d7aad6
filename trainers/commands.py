"""The subcommands `gpu-envs train` and `gpu-envs eval`."""

from __future__ import annotations

import dataclasses
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gpu_envs.commands import settings
from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from gpu_envs.progress import ProgressBar
from gpu_envs.registry import find, resolve_device
from trainers import checkpoint
from trainers.agents import agents_of
from trainers.arguments import FINAL_SEED, SHARED, EvalArgs, TrainArgs, parse, parse_train
from trainers.checkpoint import Checkpoint
from trainers.config import TrainConfig, groups_by_policy, make_eval_core
from trainers.evaluate import Outcome, crossplay, matchups, table
from trainers.files import write_json
from trainers.logs import plot_curves
from trainers.loop import Trainer
from trainers.policy import Policy
from trainers.ppo import PPOConfig
from trainers.video import MAX_FRAMES, record

FINAL_EPISODES = 256
"""Episodes per matchup of the table at the end of a training."""


def train_command(argv: list[str]) -> int:
    """`gpu-envs train ID ...`; returns 0, or 128 + n when signal n ended the run early."""
    args, resume = parse_train(argv)
    config = TrainConfig(
        env_id=args.id,
        env=settings(args.env, options={name: f"--{name.replace('_', '-')}" for name in SHARED}),
        policies=settings(args.policy, "--policy"),
        ppo=PPOConfig(**vars(args.ppo)),
        **{name: getattr(args, name) for name in SHARED},
    )
    if config.threads:  # for the evaluation at the end too
        torch.set_num_threads(config.threads)
    out = _folder(args, resume)
    progress = ProgressBar(config.total_steps, "steps", file=sys.stderr)
    trainer = Trainer(config, out, resume, progress=progress)
    what = f"{', '.join(trainer.seats)} on {config.env_id}"
    print(f"training {what}: {config.num_envs} worlds on {trainer.device}, {out}/", flush=True)
    with progress:
        last = trainer.run()
    written = [out / "metrics.csv", out / "config.json"]
    written += _optional("curves", lambda: plot_curves(out / "metrics.csv", out / "curves.png"))
    if trainer.stopped_by is not None:
        name = signal.Signals(trainer.stopped_by).name
        print(f"{name}: saved {last}; continue with: gpu-envs train --resume {out}")
        return 128 + trainer.stopped_by
    print(f"trained {trainer.steps:,} steps in {trainer.seconds:.0f} s")
    trained = {name: seat.learner.policy() for name, seat in trainer.seats.items()}
    sides = {name: seat.groups for name, seat in trainer.seats.items()}
    if config.eval_episodes:
        core = make_eval_core(config, FINAL_EPISODES, FINAL_SEED)
        results = _crossplay(core, sides, trained, None, FINAL_SEED)
        write_json(out / "crossplay.json", _as_json(results))
        written.append(out / "crossplay.json")
    if args.video:
        players = {group: trained[name] for name, groups in sides.items() for group in groups}
        core = make_eval_core(config, 4, FINAL_SEED)
        with ProgressBar(MAX_FRAMES, "frames", file=sys.stderr) as progress:
            written += _optional(
                "video", lambda: record(core, players, out / "video.mp4", FINAL_SEED, progress=progress)
            )
    for file in (*written, last):
        print(f"  {file}")
    print(f"  tensorboard --logdir {out}")
    return 0


def _folder(args: TrainArgs, resume: Checkpoint | None) -> Path:
    """Makes the run's folder, and sees that a new run gets a new one."""
    out = args.out
    if out is None and resume is None:
        out = Path("out") / f"{find(args.id).id}-{time.strftime('%Y%m%d-%H%M%S')}"
    elif out is None and resume is not None:
        path = resume.path if resume.path.parent.name == "checkpoints" else resume.path.resolve()  # it may be "."
        if path.parent.name != "checkpoints":
            raise ConfigError(f"--resume {path}: a checkpoint outside of any run; name a folder with --out")
        out = path.parent.parent
    assert out is not None
    if resume is None and (out / "checkpoints").exists():
        raise ConfigError(f"--out {out}: there is a run already; continue it with --resume {out}, or choose another")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out}: expected a folder that can be made, got {error.strerror}") from None
    return out


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
    other: Mapping[str, Policy] | None,
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
    """`gpu-envs eval PATH ...`: prints the cross-play table of a checkpoint; returns 0."""
    args = parse(EvalArgs, "eval", argv)
    if args.episodes < 2:
        raise ConfigError(f"--episodes {args.episodes}: expected >= 2, an interval needs a spread")
    saved = checkpoint.load(args.path)
    config = TrainConfig.from_json(saved.config)
    env = config.env | settings(args.env, options={"num_envs": "--episodes", "seed": "--seed", "device": "--device"})
    config = dataclasses.replace(config, env=env, device=str(resolve_device(args.device)))
    if config.threads:
        torch.set_num_threads(config.threads)
    core = make_eval_core(config, args.episodes, args.seed)
    sides = groups_by_policy(config, core)
    trained = _policies(saved, sides, core)
    print(f"trained: {saved.path} (step {saved.steps:,})")
    other = None
    if args.against is not None:
        opponent = checkpoint.load(args.against)
        if (got := TrainConfig.from_json(opponent.config).env_id) != config.env_id:
            raise CheckpointError(f"{opponent.path / 'manifest.json'}: env_id: expected {config.env_id}, got {got}")
        other = _policies(opponent, sides, core)
        print(f"other: {opponent.path} (step {opponent.steps:,})")
    results = _crossplay(core, sides, trained, other, args.seed, args.greedy)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.out, _as_json(results))
    return 0


def _policies(saved: Checkpoint, sides: Mapping[str, Sequence[str]], core: Core) -> dict[str, Policy]:
    """The policies that the sides need, checked against the environment they are to play in."""
    policies = {name: saved.policy(name, core.device) for name in sides}
    for name, groups in sides.items():
        width = agents_of(core, groups).width
        if policies[name].obs_width != width:
            file = saved.path / f"policy-{name}.json"
            got = policies[name].obs_width
            raise CheckpointError(f"{file}: obs_width: expected {width} as in this {core.id}, got {got}")
    return policies


def _as_json(results: Sequence[tuple[dict[str, str], Outcome]]) -> dict[str, Any]:
    return {"matchups": [{"policies": matchup, **dataclasses.asdict(outcome)} for matchup, outcome in results]}
