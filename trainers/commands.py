"""The subcommands `gpu-envs train` and `gpu-envs eval`."""

from __future__ import annotations

import dataclasses
import json
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gpu_envs.commands import settings
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError, MissingExtraError
from gpu_envs.registry import find, resolve_device
from trainers import checkpoint
from trainers.checkpoint import Checkpoint
from trainers.config import TrainConfig, groups_by_policy, make_eval_core
from trainers.evaluate import Outcome, crossplay, table
from trainers.files import write_json
from trainers.logs import ProgressBar, plot_curves
from trainers.loop import Trainer
from trainers.policy import Policy
from trainers.ppo import PPOConfig
from trainers.presets import preset
from trainers.video import record

try:
    import tyro
    from tyro.conf import Positional, UseAppendAction
except ModuleNotFoundError:
    raise MissingExtraError("training needs tyro: pip install 'gpu-envs[train]'") from None

FINAL_EPISODES = 256
"""Episodes per matchup of the table at the end of a training."""
FINAL_SEED = 161_803
"""Worlds of that table: neither the training's nor those of the evaluations on the way."""


@dataclass(frozen=True)
class PPOArgs(PPOConfig):
    """Settings of PPO, checked after parsing: an error is one line then, and not a box of tyro's."""

    def __post_init__(self) -> None:
        """Checks nothing."""


@dataclass
class TrainArgs:
    """Train policies with PPO, one per group of agents. Defaults are the environment's preset for the device."""

    id: Positional[str]
    """Environment, such as TagContinuous-v0 (`gpu-envs list` shows all)."""
    env: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE, a setting of the environment; repeat it for more."""
    policy: UseAppendAction[tuple[str, ...]] = ()
    """GROUP=NAME, the policy a group plays if not one of its own; repeat it for more."""
    num_envs: int = 64
    """Worlds simulated at once."""
    total_steps: int = 1_000_000
    """Steps of worlds to train for."""
    seed: int = 0
    """Of environment and learners."""
    device: str = "cpu"
    """"cpu", "cuda" or "cuda:<i>"; cuda if there is one."""
    out: Path | None = None
    """Folder of the run; out/<id>-<time> if not given."""
    resume: Path | None = None
    """Run or checkpoint to continue, with the settings recorded there."""
    checkpoint_every: int = 50
    """Iterations between checkpoints."""
    keep_last: int = 3
    """Checkpoints to keep beside the best."""
    eval_episodes: int = 64
    """Episodes per policy against random ones at every checkpoint; 0 for no evaluation, not even at the end."""
    threads: int = 0
    """Threads of torch on the CPU; 0 leaves them as they are."""
    video: bool = True
    """Write video.mp4 at the end."""
    ppo: PPOArgs = field(default_factory=PPOArgs)
    """Settings of the learners."""


@dataclass
class EvalArgs:
    """Play trained policies against random ones and, if given, those of another checkpoint."""

    path: Positional[Path]
    """Run or checkpoint."""
    against: Path | None = None
    """Another run or checkpoint of the same environment."""
    env: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE, a setting of the environment to change; repeat it for more."""
    episodes: int = 256
    """Episodes per matchup, played at once, one per world."""
    seed: int = FINAL_SEED
    """Of the worlds and the samples of the policies."""
    device: str | None = None
    """"cpu", "cuda" or "cuda:<i>"; cuda if there is one."""
    greedy: bool = False
    """Take the most probable actions instead of samples."""
    out: Path | None = None
    """JSON file for the table."""


def train_command(argv: list[str]) -> int:
    """`gpu-envs train ID ...`; returns 0, or 128 + n when signal n ended the run early."""
    args, resume = _parse_train(argv)
    config = TrainConfig(
        env_id=args.id,
        env=settings(args.env),
        policies=settings(args.policy, "--policy"),
        ppo=PPOConfig(**vars(args.ppo)),
        **{name: getattr(args, name) for name in SHARED},
    )
    if config.threads:  # for the evaluation at the end too
        torch.set_num_threads(config.threads)
    out = args.out or (_run_of(resume) if resume else Path("out") / f"{config.env_id}-{time.strftime('%Y%m%d-%H%M%S')}")
    if resume is None and (out / "checkpoints").exists():
        raise ConfigError(f"--out {out}: there is a run already; continue it with --resume {out}, or choose another")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out}: expected a folder that can be made, got {error.strerror}") from None
    with ProgressBar(config.total_steps) as progress:
        trainer = Trainer(config, out, resume, progress=progress)
        what = f"{', '.join(trainer.seats)} on {config.env_id}"
        print(f"training {what}: {config.num_envs} worlds on {trainer.device}, {out}/")
        last = trainer.run()
    plot_curves(out / "metrics.csv", out / "curves.png")
    if trainer.stopped_by is not None:
        name = signal.Signals(trainer.stopped_by).name
        print(f"{name}: saved {last}; continue with: gpu-envs train {config.env_id} --resume {out}")
        return 128 + trainer.stopped_by
    print(f"trained {trainer.steps:,} steps in {trainer.seconds:.0f} s")
    trained = {name: seat.learner.policy() for name, seat in trainer.seats.items()}
    sides = {name: seat.groups for name, seat in trainer.seats.items()}
    if config.eval_episodes:
        core = make_eval_core(config, FINAL_EPISODES, FINAL_SEED)
        results = crossplay(core, sides, trained, None, FINAL_SEED)
        print(table(results))
        write_json(out / "crossplay.json", _as_json(results))
    if args.video:
        players = {group: trained[name] for name, groups in sides.items() for group in groups}
        try:
            record(make_eval_core(config, 4, FINAL_SEED), players, out / "video.mp4", FINAL_SEED)
        except GpuEnvsError as error:  # a missing library or ffmpeg must not make a finished training look failed
            print(f"no video: {error}")
    for file in ("metrics.csv", "curves.png", "video.mp4", "crossplay.json", "config.json"):
        if (out / file).exists():
            print(f"  {out / file}")
    print(f"  {last}\n  tensorboard --logdir {out}")
    return 0


SHARED = (
    "num_envs", "total_steps", "seed", "device", "checkpoint_every", "keep_last", "eval_episodes", "threads",
)  # fmt: skip
"""Fields that TrainArgs and TrainConfig have in common."""


def _parse_train(argv: list[str]) -> tuple[TrainArgs, Checkpoint | None]:
    """Parses against the preset of the id and device named, or against the settings of the run to resume."""
    first = argv[0] if argv and not argv[0].startswith("-") else ""
    if not first:  # --help, or tyro says what is missing
        return tyro.cli(TrainArgs, prog="gpu-envs train", args=argv), None
    env_id = find(first).id
    device = str(resolve_device(_value_of("--device", argv)))
    path, resume = _value_of("--resume", argv), None
    if path is None:
        base = preset(env_id, device)
    else:
        resume = checkpoint.load(Path(path))
        base = TrainConfig.from_json(resume.config)
        if base.env_id != env_id:
            raise CheckpointError(f"{resume.path / 'manifest.json'}: env_id: expected {env_id}, got {base.env_id}")
        device = device if _value_of("--device", argv) else base.device
    shared: dict[str, Any] = {name: getattr(base, name) for name in SHARED}
    default = TrainArgs(id=env_id, ppo=PPOArgs(**vars(base.ppo)), **{**shared, "device": device})
    args = tyro.cli(TrainArgs, prog="gpu-envs train", args=[env_id, *argv[1:]], default=default)
    given = {"env": base.env, "policy": base.policies}
    for name, recorded in given.items():  # what was given comes last, and so wins
        before = tuple(f"{key}={json.dumps(value)}" for key, value in recorded.items())
        setattr(args, name, (*before, *getattr(args, name)))
    return args, resume


def _value_of(option: str, argv: Sequence[str]) -> str | None:
    """The value of an option that decides about the defaults of the others."""
    for word, following in zip(argv, [*argv[1:], None], strict=True):
        if word == option:
            return following
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def _run_of(resume: Checkpoint) -> Path:
    """The folder of the run that a checkpoint belongs to."""
    return resume.path.parent.parent


def eval_command(argv: list[str]) -> int:
    """`gpu-envs eval PATH ...`: prints the cross-play table of a checkpoint; returns 0."""
    args = tyro.cli(EvalArgs, prog="gpu-envs eval", args=argv)
    if args.episodes < 2:
        raise ConfigError(f"--episodes {args.episodes}: expected >= 2, an interval needs a spread")
    saved = checkpoint.load(args.path)
    config = TrainConfig.from_json(saved.config)
    env = config.env | settings(args.env)
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
        if opponent.config["env_id"] != config.env_id:
            expected, got = config.env_id, opponent.config["env_id"]
            raise CheckpointError(f"{opponent.path / 'manifest.json'}: env_id: expected {expected}, got {got}")
        other = _policies(opponent, sides, core)
        print(f"other: {opponent.path} (step {opponent.steps:,})")
    results = crossplay(core, sides, trained, other, args.seed, args.greedy)
    print(table(results))
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.out, _as_json(results))
    return 0


def _policies(saved: Checkpoint, sides: Mapping[str, Sequence[str]], core: Any) -> dict[str, Policy]:
    """The policies that the sides need, checked against the environment they are to play in."""
    policies = {name: saved.policy(name, core.device) for name in sides}
    for name, groups in sides.items():
        agents = [core.possible_agents[row] for group in groups for row in core.groups[group]]
        width = max(core.observation_spaces[agent].shape[0] for agent in agents)
        if policies[name].obs_width != width:
            file = saved.path / f"policy-{name}.json"
            got = policies[name].obs_width
            raise CheckpointError(f"{file}: obs_width: expected {width} as in this {core.id}, got {got}")
    return policies


def _as_json(results: Sequence[tuple[dict[str, str], Outcome]]) -> dict[str, Any]:
    return {"matchups": [{"policies": matchup, **dataclasses.asdict(outcome)} for matchup, outcome in results]}
