"""What `gpu-envs train`, `eval` and `export` can be told, and how it is read."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpu_envs.errors import CheckpointError, ConfigError, MissingExtraError
from gpu_envs.factory import resolve_device
from gpu_envs.id_modules import NAMESPACE, allow_import, split_id
from gpu_envs.registry import spelled
from trainers import algorithms, checkpoint
from trainers.checkpoint import Checkpoint
from trainers.config import TrainConfig
from trainers.presets import preset
from trainers.settings import setting

if TYPE_CHECKING:
    from trainers.recordings import Recording

try:
    import tyro
    from tyro.conf import Positional, UseAppendAction
except ModuleNotFoundError:
    raise MissingExtraError("training needs tyro: pip install 'gpu-envs[train]'") from None

A = TypeVar("A")
FINAL_SEED = 161_803
"""Worlds of the table at the end: neither the training's nor those of the evaluations on the way."""
SHARED = (
    "num_envs", "total_steps", "seed", "device", "sharing", "algorithm", "checkpoint_every", "keep_last",
    "eval_episodes", "eval_against", "patience", "until_return", "deterministic", "capture", "threads",
)  # fmt: skip
"""Fields that TrainArgs and TrainConfig have in common."""


@dataclass
class TrainArgs:
    """Train policies, one per group of agents. Defaults are the environment's preset for the device.

    Example: gpu-envs train SimpleTag-v0 --total-steps 2000000 --learner.learning-rate 3e-4
    """

    id: Positional[str] = ""
    """Environment, such as TagContinuous-v0 (`gpu-envs list` shows all); not needed with --resume."""
    env: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE, a setting of the environment; repeat it for more."""
    algorithm: str = "ppo"
    """Of the learners: see docs/guides/algorithms.md. Its own settings are --learner.NAME."""
    sharing: str = "group"
    """Who shares a policy: the agents of a "group", each "agent" its own, or "all"."""
    policy: UseAppendAction[tuple[str, ...]] = ()
    """NAME=POLICY, the policy that a group or agent plays, where --sharing does not say; repeat it for more."""
    num_envs: int = 64
    """Worlds simulated at once."""
    total_steps: int = 1_000_000
    """Steps of worlds to train for."""
    seed: int = 0
    """Of environment and learners."""
    device: str | None = None
    """"cpu", "cuda" or "cuda:<i>"; cuda if there is one here. On a cluster "cpu" or "cuda", which only workers need."""
    out: Path | None = None
    """Folder of the run; out/<id>-<time> if not given, and the run's own with --resume."""
    resume: Path | None = None
    """Run or checkpoint to continue, with the settings recorded there."""
    allow_import: UseAppendAction[tuple[str, ...]] = ()
    """Module of a recorded environment; it is imported, which runs it. Repeat it for more."""
    checkpoint_every: int = 50
    """Iterations between checkpoints."""
    keep_last: int = 3
    """Checkpoints to keep beside the best."""
    eval_episodes: int = 64
    """Episodes per policy against random ones at every checkpoint; 0 for no evaluation, not even at the end."""
    eval_against: str | None = None
    """Run or checkpoint whose policies play the other sides in these evaluations, instead of random ones."""
    patience: int = 0
    """Evaluations without a better score after which the training ends; 0: it does not."""
    until_return: float | None = None
    """End when the mean return per agent over the last 100 episodes is at least this in every group; exit code 1 if
    the steps pass before. The table, the curves and the video are left out."""
    deterministic: bool = False
    """Take deterministic algorithms of torch only, and refuse operations that have none."""
    threads: int = 0
    """Threads of torch on the CPU, one per core at most; 0 leaves them as they are."""
    capture: bool = True
    """On a GPU, record a rollout once as a CUDA graph, and replay it."""
    shards: int | None = None
    """Split the worlds over so many workers, under Ray, which together learn what one process would."""
    cluster: str | None = None
    """Ray cluster for them: "auto", "local" or HOST:PORT; without --shards, as many workers as it has room for."""
    video: bool = True
    """Write video.mp4 at the end."""
    learner: Any = None
    """Settings of the learners."""


@dataclass
class EvalArgs:
    """Play trained policies against random ones and, if given, those of another checkpoint.

    Example: gpu-envs eval out/mine --against out/other --episodes 1000
    """

    path: Positional[Path]
    """Run or checkpoint."""
    against: Path | None = None
    """Another run or checkpoint of the same environment, or "scripted": see Baselines in docs/guides/train.md."""
    env: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE, a setting of the environment to change; repeat it for more."""
    id: str | None = None
    """Environment that the checkpoint has to be of; the module of "module:Name-v0" is imported."""
    allow_import: UseAppendAction[tuple[str, ...]] = ()
    """Module of a recorded environment; it is imported, which runs it. Repeat it for more."""
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


@dataclass
class ExportArgs:
    """Write a trained policy as a program of torch.export, which runs without this library.

    Example: gpu-envs export out/mine tagger.pt2 --policy tagger
    """

    path: Positional[Path]
    """Run or checkpoint."""
    out: Positional[Path]
    """File to write, such as policy.pt2."""
    policy: str | None = None
    """Which of the checkpoint's policies; needed where there are several."""
    id: str | None = None
    """Environment that the checkpoint has to be of; the module of "module:Name-v0" is imported."""
    allow_import: UseAppendAction[tuple[str, ...]] = ()
    """Module of a recorded environment; it is imported, which runs it. Repeat it for more."""


@functools.cache
def with_learner(options: type[A], algorithm: str) -> type[A]:
    """A command's options with the settings of an algorithm as --learner.NAME.

    They are checked after parsing: an error is one line then, and not a box of tyro's.
    """
    settings = algorithms.find(algorithm).config_type
    unchecked = type(settings.__name__, (settings,), {"__post_init__": lambda self: None})
    learner = ("learner", unchecked, field(default_factory=unchecked))
    return dataclasses.make_dataclass(
        options.__name__, [learner], bases=(options,), namespace={"__doc__": options.__doc__}
    )


def given(argv: Sequence[str], option: str) -> str | None:
    """The value of an option that decides which others there are."""
    for i, word in enumerate(argv):
        if word == option and i + 1 < len(argv):
            return argv[i + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def parse_train(argv: Sequence[str]) -> tuple[TrainArgs, Checkpoint | None]:
    """Reads the options of `train`, in any order, and the checkpoint to continue.

    Defaults are those of the preset of the environment and device named, or those of the run to resume.
    """
    algorithm, path = given(argv, "--algorithm") or "ppo", given(argv, "--resume")
    resume = checkpoint.load(Path(path)) if path else None
    if resume is not None:  # the rest of its configuration is read when the modules named here are imported
        algorithm = str(resume.config.get("algorithm", "ppo"))
    algorithms.find(algorithm).check_plays()
    kind = with_learner(TrainArgs, algorithm)
    argv = _id_first(argv, algorithms.find(algorithm).config_type)
    words = [word for word in argv if word not in ("-h", "--help")]
    first = parse(kind, "train", words)  # for what decides about the defaults
    if resume is not None:
        base = TrainConfig.of(resume)
        env_id, device = base.env_id, _device(first) if first.device else base.device
        check_id(resume, env_id, first.id)
    elif first.id:
        env_id, device = spelled(first.id), _device(first)
        base = preset(env_id, device, algorithm)
    else:
        parse(kind, "train", argv)  # --help ends here
        raise ConfigError(
            "train: expected an environment, got none; name one, such as TagContinuous-v0, or --resume a run"
        )
    shared: dict[str, Any] = {name: getattr(base, name) for name in SHARED}
    learner = type(first.learner)(**vars(base.learner))
    video = first.until_return is None and base.until_return is None  # who asks for a goal waits for no pictures
    args = parse(kind, "train", argv, kind(id=env_id, learner=learner, video=video, **{**shared, "device": device}))
    args.id, args.device = env_id, device
    # what was given comes last, and so wins
    args.env = (*(f"{name}={json.dumps(value)}" for name, value in base.env.items()), *args.env)
    args.policy = (*(f"{group}={name}" for group, name in base.policies.items()), *args.policy)
    return args, resume


def _device(args: TrainArgs) -> str:
    """Of this machine, or of the cluster that is to train."""
    if args.shards is None and args.cluster is None:
        return str(resolve_device(args.device))
    return device_of_cluster(args.device)


def device_of_cluster(device: str | None) -> str:
    """The kind of device that is named: a cluster may have GPUs where this machine has none. None: as this machine.

    Raises:
        ConfigError: A certain GPU was named.
        DeviceError: Another device was.
    """
    if device is not None and device.startswith("cuda:"):
        raise ConfigError(f"device = {device!r}: expected 'cuda', as Ray says which GPU a worker has")
    return device if device == "cuda" else str(resolve_device(device)).partition(":")[0]


def check_id(saved: Checkpoint | Recording, recorded: str, given: str | None) -> None:
    """Check that a checkpoint or recording is of the environment asked for, if one is; either may leave out the module.

    Raises:
        CheckpointError: It is of another environment.
    """
    given = (given or "").removeprefix(NAMESPACE)
    if given and given not in (recorded, split_id(recorded)[1]) and split_id(given)[1] != recorded:
        raise CheckpointError(f"{saved.path / 'manifest.json'}: env_id: expected {given}, got {recorded}")


def policy_names(pairs: Sequence[str]) -> dict[str, str]:
    """What the values of --policy say, policy by group; ConfigError where one is no NAME=POLICY."""
    names = {}
    for pair in pairs:
        group, equals, name = pair.partition("=")
        if not (group and equals and name):
            raise ConfigError(f"--policy {pair}: expected NAME=POLICY, such as adversary=shared")
        names[group] = name
    return names


def _id_first(argv: Sequence[str], settings: type[Any]) -> Sequence[str]:
    """Moves the id away from behind an option of several numbers, which would take it for another."""
    several = [each.name for each in dataclasses.fields(settings) if str(each.type).startswith("tuple")]
    options = {f"--learner.{name.replace('_', '-')}" for name in several}
    for i, word in enumerate(argv):
        if word in options:
            after = next((j for j in range(i + 1, len(argv)) if not argv[j].isdigit()), len(argv))
            if after < len(argv) and not argv[after].startswith("-"):
                return [argv[after], *argv[:after], *argv[after + 1 :]]
    return argv


def parse(kind: type[A], command: str, argv: Sequence[str], default: A | None = None) -> A:
    """Reads a command line into a dataclass, and imports the modules that it names; --help prints and exits.

    Raises:
        UnknownEnvironmentError: No such environment or module.
        ConfigError: The first thing that tyro finds wrong, which it would show in a box of several lines.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            prog = f"gpu-envs {command}"
            if default is None:
                args = tyro.cli(kind, prog=prog, args=argv)
            else:
                args = tyro.cli(kind, prog=prog, args=argv, default=default)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ConfigError(f"{command}: {_one_line(said.getvalue())}; see gpu-envs {command} --help") from None
    for module in getattr(args, "allow_import", ()):
        allow_import(module)
    if id := getattr(args, "id", None):
        spelled(id)
    return args


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
