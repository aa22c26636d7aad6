"""What `gpu-envs train` and `gpu-envs eval` can be told, and how it is read."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gpu_envs.errors import CheckpointError, ConfigError, MissingExtraError
from gpu_envs.registry import NAMESPACE, find, resolve_device, spelled
from trainers import checkpoint
from trainers.checkpoint import Checkpoint
from trainers.config import TrainConfig
from trainers.ppo import PPOConfig
from trainers.presets import preset
from trainers.settings import setting

try:
    import tyro
    from tyro.conf import Positional, UseAppendAction
except ModuleNotFoundError:
    raise MissingExtraError("training needs tyro: pip install 'gpu-envs[train]'") from None

A = TypeVar("A")
FINAL_SEED = 161_803
"""Worlds of the table at the end: neither the training's nor those of the evaluations on the way."""
SHARED = (
    "num_envs", "total_steps", "seed", "device", "checkpoint_every", "keep_last", "eval_episodes", "threads",
)  # fmt: skip
"""Fields that TrainArgs and TrainConfig have in common."""


@dataclass(frozen=True)
class PPOArgs(PPOConfig):
    """Settings of PPO, checked after parsing: an error is one line then, and not a box of tyro's."""

    def __post_init__(self) -> None:
        """Checks nothing."""


@dataclass
class TrainArgs:
    """Train policies with PPO, one per group of agents. Defaults are the environment's preset for the device."""

    id: Positional[str] = ""
    """Environment, such as TagContinuous-v0 (`gpu-envs list` shows all); not needed with --resume."""
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
    device: str | None = None
    """"cpu", "cuda" or "cuda:<i>"; cuda if there is one."""
    out: Path | None = None
    """Folder of the run; out/<id>-<time> if not given, and the run's own with --resume."""
    resume: Path | None = None
    """Run or checkpoint to continue, with the settings recorded there."""
    checkpoint_every: int = 50
    """Iterations between checkpoints."""
    keep_last: int = 3
    """Checkpoints to keep beside the best."""
    eval_episodes: int = 64
    """Episodes per policy against random ones at every checkpoint; 0 for no evaluation, not even at the end."""
    threads: int = 0
    """Threads of torch on the CPU, one per core at most; 0 leaves them as they are."""
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
    id: str | None = None
    """Environment of the checkpoint; needed only where it is in a module, "module:Name-v0", which is then imported."""
    episodes: int = setting(256, ">= 2")
    """Episodes per matchup, played at once, one per world."""
    seed: int = setting(FINAL_SEED, "in [0, 2**63)")
    """Of the worlds and the samples of the policies."""
    device: str | None = None
    """"cpu", "cuda" or "cuda:<i>"; cuda if there is one."""
    greedy: bool = False
    """Take the most probable actions instead of samples."""
    out: Path | None = None
    """JSON file for the table."""


def parse_train(argv: Sequence[str]) -> tuple[TrainArgs, Checkpoint | None]:
    """Reads the options of `train`, in any order, and the checkpoint to continue.

    Defaults are those of the preset of the environment and device named, or those of the run to resume.
    """
    argv = _id_first(argv)
    words = [word for word in argv if word not in ("-h", "--help")]
    first = parse(TrainArgs, "train", words)  # for what decides about the defaults
    if first.resume is not None:
        resume = checkpoint.load(first.resume)
        base = TrainConfig.from_json(resume.config)
        env_id, device = base.env_id, first.device or base.device
        check_id(resume, env_id, first.id, f"gpu-envs train {env_id} --resume {first.resume}")
    elif first.id:
        env_id, device, resume = spelled(first.id), str(resolve_device(first.device)), None
        base = preset(env_id, device)
    else:
        parse(TrainArgs, "train", argv)  # --help ends here
        raise ConfigError(
            "train: expected an environment, got none; name one, such as TagContinuous-v0, or --resume a run"
        )
    shared: dict[str, Any] = {name: getattr(base, name) for name in SHARED}
    default = TrainArgs(id=env_id, ppo=PPOArgs(**vars(base.ppo)), **{**shared, "device": device})
    args = parse(TrainArgs, "train", argv, default)
    args.id, args.device = env_id, device
    # what was given comes last, and so wins
    args.env = (*(f"{name}={json.dumps(value)}" for name, value in base.env.items()), *args.env)
    args.policy = (*(f"{group}={name}" for group, name in base.policies.items()), *args.policy)
    return args, resume


def check_id(saved: Checkpoint, recorded: str, given: str | None, command: str) -> None:
    """Sees that a checkpoint is of the environment asked for, and imports the module that was named, if any.

    To import a module is to run it, and a checkpoint may come from anywhere: the module that one names is not imported
    unless the command line names it too.

    Raises:
        CheckpointError: It is of another environment, or of one in a module that was not named; `command` names it.
    """
    file, name = saved.path / "manifest.json", recorded.rpartition(":")[2]
    given = (given or "").removeprefix(NAMESPACE)
    if name != recorded and given in ("", name):
        raise CheckpointError(f"{file}: {recorded} is in a module, which is imported only where you name it: {command}")
    if given and given not in (recorded, f"{given.rpartition(':')[0]}:{recorded}"):
        raise CheckpointError(f"{file}: env_id: expected {given}, got {recorded}")
    if given:
        find(given)


def policy_names(pairs: Sequence[str]) -> dict[str, str]:
    """What the values of --policy say: policy by group."""
    names = {}
    for pair in pairs:
        group, equals, name = pair.partition("=")
        if not (group and equals and name):
            raise ConfigError(f"--policy {pair}: expected GROUP=NAME, such as adversary=shared")
        names[group] = name
    return names


def _id_first(argv: Sequence[str]) -> Sequence[str]:
    """Moves the id away from behind the one option of several values, which would take it for another."""
    for i, word in enumerate(argv):
        if word == "--ppo.hidden":
            after = next((j for j in range(i + 1, len(argv)) if not argv[j].isdigit()), len(argv))
            if after < len(argv) and not argv[after].startswith("-"):
                return [argv[after], *argv[:after], *argv[after + 1 :]]
    return argv


def parse(kind: type[A], command: str, argv: Sequence[str], default: A | None = None) -> A:
    """Reads a command line into a dataclass; --help prints and exits.

    Raises:
        ConfigError: The first thing that tyro finds wrong, which it would show in a box of several lines.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            if default is None:
                return tyro.cli(kind, prog=f"gpu-envs {command}", args=argv)
            return tyro.cli(kind, prog=f"gpu-envs {command}", args=argv, default=default)
    except SystemExit as stop:
        if not stop.code:
            raise
    raise ConfigError(f"{command}: {_one_line(said.getvalue())}; see gpu-envs {command} --help")


def _one_line(box: str) -> str:
    """The message in a box of tyro's, up to its first rule, and the nearest option if tyro names one."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box)
    inside = [line.strip("│ ") for line in plain.splitlines() if line.strip()][1:]  # the first is the title
    while inside and not inside[0].strip("─-"):  # where the terminal has no box, a rule follows it
        inside.pop(0)
    rule = next((i for i, line in enumerate(inside) if not line.strip("─-╰╯")), len(inside))
    message = " ".join(inside[:rule])
    with contextlib.suppress(ValueError, IndexError):
        near = inside[inside.index("Perhaps you meant:") + 1].split()[0]
        message += f"; did you mean {near}?"
    return message
