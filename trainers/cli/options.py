"""Options of the commands that train, and what several commands of this package share."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from tyro.conf import Positional, Suppress, UseAppendAction, arg

from gpu_envs.cli.options import (
    CommandLine,
    ImportOptions,
    Names,
    OptionalInt,
    OptionalPath,
    OptionalStr,
    Repeated,
    parse_pairs,
    split_command_line,
    with_field,
    without_validation,
)
from gpu_envs.definition.id_modules import NAMESPACE, split_id
from gpu_envs.definition.registry import canonical_id
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.settings import Bounds, setting
from trainers.algorithms import algorithm_specs
from trainers.cli.config_file import ConfigFile, ConfigFileOptions, allow_named_modules
from trainers.config.presets import preset
from trainers.config.train_config import OPTION_FIELDS, TrainConfig
from trainers.evaluation.scripted_policies import SCRIPTED
from trainers.storage import checkpoint, run_folder
from trainers.storage.checkpoint import Checkpoint
from trainers.storage.run_folder import SeedsRecord

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TrainOptions(ConfigFileOptions, TrainConfig):
    """Train policies by reinforcement learning, one policy per group of agents.

    The defaults are the preset of the environment for the device, or the settings of the run to resume. Name the
    environment to see them: gpu-envs train SimpleTag-v0 --help

    Example: gpu-envs train SimpleTag-v0 --total-steps 2000000 --learner.learning-rate 3e-4
    """

    # options of a short help, without an annotation, which would make this one of them
    FIRST_OPTIONS = (
        "env_id", "num_envs", "total_steps", "seed", "device", "eval_episodes", "logger", "init_from", "algorithm",
        "config", "env_arg", "run_dir", "resume", "num_seeds", "video", "learner.network", "learner.hidden_sizes",
        "learner.rollout_length", "learner.gamma", "learner.learning_rate", "learner.entropy_coef",
    )  # fmt: skip

    env_id: Annotated[Positional[str], arg(metavar="[ID]", help_behavior_hint="")] = ""
    """Environment id, such as TagContinuous-v0; `gpu-envs list` prints all ids. Not needed with --resume."""
    env: Suppress[dict[str, Any]] = dataclasses.field(default_factory=dict)
    """Environment settings; --env-arg sets them."""
    policies: Suppress[dict[str, str]] = dataclasses.field(default_factory=dict)
    """Policy by group or agent; --policy sets it."""
    decide_every: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="POLICY=STEPS")] = ()  # type: ignore[assignment]
    """Steps between the decisions of a policy, such as planner=10, for leader-follower games. Actions are held in
    between. Repeat the option for several policies."""
    learn_after: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="POLICY=STEPS")] = ()  # type: ignore[assignment]
    """Environment steps after which a policy begins to learn, such as planner=500000. Repeat the option for several
    policies."""
    anneal: Repeated = ()  # type: ignore[assignment]
    """Environment parameter that changes linearly: NAME=[first value, last value, environment steps between them], such
    as tax_limit=[0,1,500000]. A fourth item "module:NAME" is a function from progress in [0, 1] to the share of the
    way. Repeat the option for several parameters."""
    eval_metric: Names = setting((), by_name=True, requires={"eval_episodes": Bounds(gt=0)})
    """Measure of evaluations: a function from `trainers.FinishedEpisodes` to one number per episode (E,). The mean is
    the column eval/<policy>/NAME. Repeat the option for several."""
    callback: Names = setting((), by_name=True)
    """Function that is called after every iteration with its row of metrics, a dictionary. Repeat the option for
    several."""
    device: OptionalStr = None  # type: ignore[assignment]
    """Device: "cpu", "cuda" or "cuda:<i>"; of Ray workers "cpu" or "cuda". Default: a GPU if one is available."""
    algorithm: str = "ppo"
    """Learning algorithm; docs/guides/algorithms.md lists all. Its settings are the options --learner.NAME.
    "module:NAME" is a learner of your own."""
    learner: Any = None
    """Settings of the algorithm."""
    env_arg: Repeated = ()
    """Environment setting, such as num_good=2. Repeat the option for several settings."""
    policy: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="GROUP=POLICY")] = ()
    """Policy name of a group or an agent, which overrides --sharing. Repeat the option for several groups."""
    run_dir: OptionalPath = None
    """Folder of the run. Default: out/<id>-<time>, or the folder of the run with --resume."""
    resume: OptionalPath = None
    """Run folder or checkpoint to continue with its recorded settings, or the folder of several seeds."""
    num_seeds: OptionalInt = setting(None, ge=1)
    """Number of independent runs with the seeds --seed, --seed + 1, ..., at once in this process. Each is an ordinary
    run in the folder."""
    num_workers: OptionalInt = None
    """Number of Ray workers that share the environments of one training. The result equals one process's."""
    ray_address: OptionalStr = None
    """Ray cluster of the workers: "auto", "local" or HOST:PORT. Without --num-workers, use all its GPUs. With
    --num-actors, the cluster of the actors; the learner is this process."""
    video: bool = True
    """Write video.mp4 of the trained policies at the end."""

    def __post_init__(self) -> None:
        """Leave validation to the `TrainConfig` that is made of these options."""


@dataclass(frozen=True, kw_only=True)
class SavedPolicyOptions(ImportOptions):
    """The checkpoint that a command reads."""

    path: Annotated[Positional[Path], arg(metavar="RUN")]
    """Run folder, checkpoint folder or zoo:NAME."""
    env_id: OptionalStr = None
    """Environment id that the checkpoint must have. The module of "module:Name-v0" is imported."""


@functools.cache
def with_learner(kind: type[T], algorithm: str) -> type[T]:
    """Return options with the settings of an algorithm as --learner.NAME."""
    settings = without_validation(algorithm_specs.find(algorithm).config_type)
    return with_field(kind, "learner", settings, settings)


def parse_train(argv: Sequence[str]) -> tuple[TrainConfig, TrainOptions, Checkpoint | SeedsRecord | None]:
    """Return the configuration and the options of `gpu-envs train`, and the checkpoint or the seeds to resume.

    The defaults are the preset of the environment and the device, or the settings of the run to resume.

    Raises:
        ConfigError: A wrong option or value, or options that exclude each other.
    """
    words = split_command_line(TrainOptions, argv)
    file = ConfigFile.of("train", TrainOptions, argv)
    resume = _load_resumed(words)
    allow_named_modules(TrainOptions, argv)
    algorithm = words.last("algorithm") or file.get("algorithm") or "ppo"
    if resume is not None:
        algorithm = str(resume.config.get("algorithm", "ppo"))
    algorithm_specs.find(algorithm).check_plays()
    kind = with_learner(TrainOptions, algorithm)
    allow_named_modules(kind, argv)  # of the algorithm's settings, too
    words = file.merge(kind, argv)
    if words.last("num_seeds") is not None:
        _check_options_of_several(words)
    base = _defaults(words, algorithm, resume)
    if base is None:
        file.parse(kind, words)  # prints the help, or raises an error about another option
        raise ConfigError(
            "train: expected an environment, got none; name one, such as TagContinuous-v0, or --resume a run"
        )
    video = base.until_return is None and words.last("until_return") is None  # a run until a goal is a measurement
    shared = {name: getattr(base, name) for name in OPTION_FIELDS}
    args = file.parse(kind, words, kind(env_id="", learner=_like(kind, base.learner), video=video, **shared))
    options = {name: getattr(args, name) for name in OPTION_FIELDS}
    options |= {"device": base.device, "init_from": recorded_path(args.init_from)}
    if args.eval_opponents != SCRIPTED:
        options["eval_opponents"] = recorded_path(args.eval_opponents)
    env_args = (f"{name}={json.dumps(value)}" for name, value in base.env.items())
    played = {name: f"--{name.replace('_', '-')}" for name in OPTION_FIELDS}
    config = dataclasses.replace(
        base,
        env=parse_pairs([*env_args, *args.env_arg], options=played),  # the last value of a name counts
        policies=base.policies | policy_names(args.policy),
        decide_every=base.decide_every | parse_pairs(args.decide_every, "--decide-every"),  # type: ignore[arg-type]
        learn_after=base.learn_after | parse_pairs(args.learn_after, "--learn-after"),  # type: ignore[arg-type]
        anneal=base.anneal | parse_pairs(args.anneal, "--anneal"),  # type: ignore[arg-type]
        learner=algorithm_specs.find(algorithm).settings(**vars(args.learner)),
        **options,
    )
    return config, args, resume


def _load_resumed(words: CommandLine) -> Checkpoint | SeedsRecord | None:
    """Return what --resume names, after the check of the options that exclude each other."""
    path, count = words.last("resume"), words.last("num_seeds")
    has_seeds = path is not None and (Path(path) / checkpoint.SEEDS).is_file()
    if count is not None or has_seeds:
        _check_options_of_several(words)
    if path is None:
        return None
    if has_seeds:
        if words.last("run_dir") is not None:
            raise ConfigError("--run-dir: expected none, because several seeds continue in their folder; leave it out")
        return run_folder.read_seeds(Path(path))
    if count is not None:
        raise ConfigError(
            f"--num-seeds: expected the folder of several seeds after --resume, got the single run {path}; "
            "leave --num-seeds out"
        )
    return checkpoint.load(Path(path))


def _check_options_of_several(words: CommandLine) -> None:
    """Raise an error if an option of trainings with one seed is given."""
    for name, instead in (
        ("num_workers", "train in this process"),
        ("ray_address", "train in this process"),
        ("video", "use gpu-envs render with one of the runs"),
    ):
        if name in words.values or f"--{name}" in words.argv:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{option}: expected a training with one seed, got several; {instead}")


def _defaults(words: CommandLine, algorithm: str, resume: Checkpoint | SeedsRecord | None) -> TrainConfig | None:
    """Return the settings that hold where the command line names no others; None without an environment."""
    device, workers = words.last("device"), {"num_workers", "ray_address"} & words.values.keys()
    if resume is not None:
        if words.positional:
            canonical_id(words.positional)
        file = resume.path / (checkpoint.SEEDS if isinstance(resume, SeedsRecord) else "manifest.json")
        base = TrainConfig.from_json(resume.config, str(file))
        check_id(file, base.env_id, words.positional)
        return dataclasses.replace(base, device=_device(device, bool(workers))) if device else base
    if not words.positional:
        return None
    env_id = canonical_id(words.positional)
    return preset(env_id, _device(device, bool(workers)), algorithm)


def _like(kind: type[Any], learner: Any) -> Any:
    """Return the settings of an algorithm in the type that the options of a command have."""
    settings = next(field for field in dataclasses.fields(kind) if field.name == "learner").type
    return settings(**vars(learner))  # type: ignore[operator]


def _device(device: str | None, on_cluster: bool) -> str:
    """Return the device of this machine, or the kind of device of a cluster."""
    return device_of_cluster(device) if on_cluster else str(resolve_device(device))


def device_of_cluster(device: str | None) -> str:
    """Return the kind of device of a cluster's workers; the cluster may have GPUs where this machine has none.

    Args:
        device: "cpu" or "cuda"; None for the kind of this machine.

    Raises:
        ConfigError: The device is one particular GPU.
        DeviceError: The device is unknown.
    """
    if device is not None and device.startswith("cuda:"):
        raise ConfigError(f"device: expected 'cuda', because Ray assigns GPUs to workers, got {device!r}")
    return device if device == "cuda" else str(resolve_device(device)).partition(":")[0]


def check_id(file: Path, recorded: str, env_id: str | None) -> None:
    """Check the environment of a checkpoint, a recording, a league or several seeds.

    Args:
        file: File that records the environment.
        recorded: The recorded id.
        env_id: Id on the command line, with or without its module; None for any environment.

    Raises:
        CheckpointError: The environment is another one.
    """
    env_id = (env_id or "").removeprefix(NAMESPACE)
    if env_id and env_id not in (recorded, split_id(recorded)[1]) and split_id(env_id)[1] != recorded:
        raise CheckpointError(f"{file}: env_id: expected {env_id}, got {recorded}")


def policy_names(pairs: Sequence[str]) -> dict[str, str]:
    """Return the policy name by group from the values of --policy.

    Raises:
        ConfigError: A value is not GROUP=POLICY.
    """
    names = {}
    for pair in pairs:
        group, equals, name = pair.partition("=")
        if not (group and equals and name):
            raise ConfigError(f"--policy {pair}: expected GROUP=POLICY, such as adversary=shared")
        names[group] = name
    return names


def recorded_path(path: str | None) -> str | None:
    """Return the whole path of a checkpoint, which other working folders understand; a name of the zoo stays."""
    if path is None:
        return None
    folder = checkpoint.find(Path(path))
    return path if path.startswith(checkpoint.ZOO) else str(folder.resolve())
