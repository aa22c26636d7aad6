"""Configuration of a training run, and the environments that it describes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_type_hints

import torch

from gpu_envs.definition.registry import recorded_id
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import check_played
from gpu_envs.utils.settings import (
    Bounds,
    check_settings,
    check_value,
    complete_settings,
    has_default,
    is_name,
    setting,
)
from gpu_envs.utils.suggestions import unknown_name_message
from trainers.algorithms import algorithm_specs
from trainers.base.gradients import find_schedule
from trainers.base.learner_spec import ENGINES
from trainers.base.random_streams import SEEDS
from trainers.base.serialization import check_fields
from trainers.loggers.logger import LOGGERS
from trainers.models.networks import named_network

if TYPE_CHECKING:
    from trainers.storage.checkpoint import Checkpoint

CoreFactory: TypeAlias = Callable[..., Core]
"""Function that creates environments: `(config, num_envs, seed, **settings) -> core`."""
CUBLAS = "CUBLAS_WORKSPACE_CONFIG"  # environment variable for deterministic sums in cuBLAS
FIXED = ("env_id", "env", "num_envs", "seed", "sharing", "policies", "decide_every", "algorithm", "learner")
"""Fields of `TrainConfig` that a resumed run cannot change."""


@dataclass(frozen=True)
class TrainConfig:
    """Configuration of a training run; every value can be written as JSON."""

    env_id: str
    """Id of the environment, such as "TagContinuous-v0"."""
    env: dict[str, Any] = field(default_factory=dict)
    """Settings of the environment that differ from its defaults, by name."""
    num_envs: int = setting(64, ge=1)
    """Number of environments simulated in parallel."""
    total_steps: int = setting(1_000_000, ge=1)
    """Training length in environment steps, summed over all environments and rounded up to whole rollouts."""
    max_seconds: float | None = setting(None, gt=0)
    """Training time after which the training stops at the end of an iteration [s]; None: no limit."""
    seed: int = setting(0, ge=0, lt=SEEDS)
    """Random seed of environments and learners."""
    device: str = "cpu"
    """Device for training and simulation: "cpu", "cuda" or "cuda:<i>"."""
    sharing: str | None = setting(None, choices=("group", "agent", "all"))
    """Parameter sharing: one policy per "group", one per "agent", or one for "all" agents.
    None: "agent" with happo and hatrpo, else "group"."""
    policies: dict[str, str] = field(default_factory=dict)
    """Policy names by group or agent, which override `sharing`, such as {"adversary": "a", "agent_0": "b"}."""
    decide_every: dict[str, int] = field(default_factory=dict)
    """Steps between the decisions of a policy, by its name; actions are held in between. Others decide at each step."""
    learn_after: dict[str, int] = field(default_factory=dict)
    """Environment steps after which a policy begins to learn, by its name; before, it acts with its first weights."""
    anneal: dict[str, list[float | str]] = field(default_factory=dict)
    """Environment parameters that change linearly, by name: first value, last value, environment steps between them.
    A fourth item "module:NAME" is a function from progress in [0, 1] to the share of the way."""
    checkpoint_interval: int = setting(50, ge=1)
    """Iterations between checkpoints and evaluations; the last iteration always saves one."""
    keep_last_checkpoints: int = setting(3, ge=1)
    """Number of recent checkpoints to keep, in addition to the best one."""
    eval_episodes: int = setting(64, ge=0)
    """Evaluation episodes per policy at every checkpoint. The table at the end plays four times as many per matchup, at
    most 256. 0: neither."""
    eval_greedy: bool = setting(False, requires={"eval_episodes": Bounds(gt=0)})
    """Evaluate the most probable actions instead of samples."""
    eval_opponents: str | None = setting(None, requires={"eval_episodes": Bounds(gt=0)})
    """Opponents in evaluations: the policies of a run or checkpoint, or "scripted"; None: random opponents."""
    logger: tuple[str, ...] = setting(("tensorboard",), choices=tuple(LOGGERS), by_name=True)
    """Loggers of the metrics: "tensorboard", "wandb", "mlflow", or "module:Name" of your own, several if you like.
    metrics.csv is always written, so "csv" only takes the place of the default."""
    patience: int = setting(0, ge=0, requires={"eval_episodes": Bounds(gt=0)})
    """Evaluations without a new best score after which the training stops early; 0: no early stopping."""
    eval_metric: tuple[str, ...] = setting((), by_name=True, requires={"eval_episodes": Bounds(gt=0)})
    """Measures of evaluations: functions "module:NAME" from `trainers.FinishedEpisodes` to one number per episode (E,).
    The mean is the column eval/<policy>/NAME."""
    callback: tuple[str, ...] = setting((), by_name=True)
    """Functions "module:NAME" that are called after every iteration with its row of metrics, a dictionary."""
    init_from: str | None = None
    """Run, checkpoint or zoo:NAME whose policies the learners begin with, by name; a single policy is for all
    learners. None: random weights."""
    until_return: float | None = None
    """Stop when the mean return per agent over the last 100 episodes reaches this value in every group."""
    deterministic: bool = False
    """Use only deterministic algorithms of PyTorch; operations without one raise an error."""
    precision: str = setting("float32", choices=("float32", "bfloat16"))
    """Numbers in matrix products and convolutions of the networks: "float32", or "bfloat16" by autocast.
    Weights, optimizer and losses stay float32. "bfloat16" is slower on devices without instructions for it, see the
    flags avx512_bf16 and amx_bf16 of `lscpu`. No learning results with it are recorded."""
    matmul_precision: str | None = setting(None, choices=("highest", "high", "medium"))
    """Precision of float32 matrix products, see `torch.set_float32_matmul_precision`; "high" uses TF32 on a GPU.
    None: leave PyTorch's setting as it is."""
    num_threads: int = setting(0, ge=0)
    """Number of PyTorch threads on the CPU, at most one per core; 0: PyTorch's default, or 1 if gradients are kernels.
    Kernels of a single run use all cores of the process whatever this number is; `taskset` limits them. With several
    seeds at once it is the number of cores of each run, for PyTorch and kernels, see `trainers.train_seeds`."""
    env_workers: int = setting(1, ge=1)
    """Number of processes that play the worlds of an environment in plain Python; 1: the process of the training."""
    cuda_graph: bool = True
    """Capture rollouts and updates as CUDA graphs and replay them; has an effect on a GPU only."""
    engine: str = setting("auto", choices=ENGINES)
    """Engine of rollouts and gradients: "torch", or "kernel" for policies and gradients inside Warp kernels. Those of
    DQN, TD3 and SAC act in kernels only. "auto" takes the faster one for the device and the networks, on a GPU kernels
    for rollouts and PyTorch for gradients. Algorithms or networks without kernels use "torch"."""
    num_actors: int = setting(0, ge=0)
    """Actors that sample rollouts of `num_envs` worlds each without waiting for the learner, for appo and impala;
    0: one rollout and one update take turns."""
    max_staleness: int | None = setting(None, ge=1, requires={"num_actors": Bounds(gt=0)})
    """Largest number of updates between the weights that sampled a rollout and those that learn from it; actors wait
    for the learner, and staler rollouts are dropped. None: `num_actors`, the smallest value with which all actors can
    sample while the learner learns."""
    actor_device: str | None = setting(None, requires={"num_actors": Bounds(gt=0)})
    """Device of the actors: "cpu", "cuda" or "cuda:<i>"; None: the learner's device."""
    algorithm: str = "ppo"
    """Learning algorithm, see `trainers.algorithms.algorithm_specs`."""
    learner: Any = None
    """Settings of the learners, an instance of the algorithm's config class; None: its defaults."""

    def __post_init__(self) -> None:
        """Raise ConfigError for the first invalid value."""
        check_settings(self)
        check_played("env", self.env)
        _check_two_level(self)
        algorithm = algorithm_specs.find(self.algorithm)
        if self.sharing is None:
            object.__setattr__(self, "sharing", algorithm.sharing)
        if self.learner is None:
            object.__setattr__(self, "learner", algorithm.settings())
        if not isinstance(self.learner, algorithm.config_type):
            expected, actual = algorithm.config_type.__name__, type(self.learner).__name__
            raise ConfigError(f"learner: {self.algorithm} needs a {expected}, got {actual}")
        algorithm.settings(**vars(self.learner))  # what the name stands for
        if ":" in (network := getattr(self.learner, "network", "")):
            named_network(network)
        if (starts := getattr(self.learner, "learning_starts", 0)) >= self.total_steps:
            raise ConfigError(
                f"learner.learning_starts: expected fewer than total_steps = {self.total_steps}, because learning "
                f"starts after them, got {starts}"
            )

    @classmethod
    def of(cls, saved: Checkpoint) -> TrainConfig:
        """Return the configuration of a checkpoint's run, see `from_json`."""
        return cls.from_json(saved.config, str(saved.path / "manifest.json"))

    @classmethod
    def from_json(cls, data: dict[str, Any], file: str = "recorded configuration") -> TrainConfig:
        """Create a configuration from the output of `dataclasses.asdict`; missing settings get their defaults.

        Args:
            data: Recorded configuration.
            file: File that holds it, for error messages.

        Raises:
            CheckpointError: A setting is unknown or has an invalid type or value, or the environment is in a module
                that is not imported, see `gpu_envs.definition.registry.recorded_id`.
        """
        prefix = "recorded configuration"
        data = _recorded(prefix, cls, data, {**get_type_hints(cls), "learner": dict[str, Any]})
        recorded_id(data["env_id"], file)
        try:
            kind = algorithm_specs.find(data["algorithm"]).config_type
            learner = _recorded(f"{prefix}: learner", kind, data["learner"] or {}, get_type_hints(kind))
            return cls(**{**data, "learner": kind(**learner)})
        except ConfigError as error:
            raise CheckpointError(f"{prefix}: {error}") from None

    def check_same_run(self, recorded: dict[str, Any], where: str) -> None:
        """Raise CheckpointError if a recorded configuration is of a different run."""
        other = TrainConfig.from_json(recorded, where)
        for name in FIXED:
            expected, actual = getattr(self, name), getattr(other, name)
            if expected != actual:
                raise CheckpointError(f"{where}: {name}: expected {expected}, got {actual}")

    @property
    def rollout_steps(self) -> int:
        """Environment steps of a rollout, summed over all environments."""
        return self.num_envs * self.learner.rollout_length

    @property
    def iterations(self) -> int:
        """Number of rollouts to collect."""
        return -(-self.total_steps // self.rollout_steps)

    def apply_num_threads(self, kernels: bool = False) -> None:
        """Set the number of PyTorch threads, limited to the number of cores.

        Args:
            kernels: Learners use kernels, and waiting threads of PyTorch would keep their cores busy.
        """
        if self.num_threads or kernels:
            torch.set_num_threads(min(self.num_threads or 1, os.cpu_count() or 1))

    def prepare(self) -> None:
        """Make cuBLAS deterministic if `deterministic` is set; this must happen before CUDA starts in a process.

        Raises:
            ConfigError: CUDA has already started, or the process has another default dtype than float32 or a recursion
                limit below Python's default.
        """
        _check_process()
        if not (self.deterministic and self.device.startswith("cuda")) or os.environ.get(CUBLAS):
            return
        if torch.cuda.is_initialized():
            raise ConfigError(
                f"deterministic: CUDA was already started without {CUBLAS}; set {CUBLAS}=:4096:8 for the process"
            )
        os.environ[CUBLAS] = ":4096:8"

    @contextlib.contextmanager
    def in_force(self, kernels: bool = False) -> Iterator[None]:
        """Apply the number of threads, the determinism and `matmul_precision` to PyTorch within the block.

        Gradients are enabled, also within the caller's `torch.no_grad()` or `torch.inference_mode()`.

        Args:
            kernels: See `apply_num_threads`.
        """
        threads = torch.get_num_threads()
        strict = torch.are_deterministic_algorithms_enabled()
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        precision = None  # PyTorch raises an error at a read or a change if a program sets it by `torch.backends`
        self.apply_num_threads(kernels)
        if self.deterministic:
            torch.use_deterministic_algorithms(True)
        try:
            if self.matmul_precision is not None:
                precision = torch.get_float32_matmul_precision()
                torch.set_float32_matmul_precision(self.matmul_precision)
            with torch.inference_mode(False):
                yield
        finally:
            torch.set_num_threads(threads)
            if self.deterministic:  # the call imports torch._inductor, which takes seconds
                torch.use_deterministic_algorithms(strict, warn_only=warn_only)
            if precision is not None:
                torch.set_float32_matmul_precision(precision)


MIN_RECURSION_LIMIT = 1000
"""Smallest limit of recursions, which is Python's default: compiling kernels and gradients call deeply."""


def _check_process() -> None:
    """Raise ConfigError if settings of the process prevent training."""
    if (dtype := torch.get_default_dtype()) != torch.float32:
        raise ConfigError(
            f"torch's default dtype: expected float32, got {str(dtype).removeprefix('torch.')}; call "
            "torch.set_default_dtype(torch.float32)"
        )
    if (limit := sys.getrecursionlimit()) < MIN_RECURSION_LIMIT:
        raise ConfigError(
            f"Python's recursion limit: expected at least {MIN_RECURSION_LIMIT}, got {limit}; call "
            f"sys.setrecursionlimit({MIN_RECURSION_LIMIT})"
        )


def autocast(config: TrainConfig) -> torch.autocast:
    """Return the context in which the networks of a training compute, see `TrainConfig.precision`."""
    kind = torch.device(config.device).type
    # without the cache of converted weights, which a CUDA graph would keep from its capture
    return torch.autocast(kind, torch.bfloat16, enabled=config.precision == "bfloat16", cache_enabled=False)


_BY_NAME = ("env_id", "env", "policies", "decide_every", "learn_after", "anneal", "learner")
OPTION_FIELDS = tuple(option.name for option in dataclasses.fields(TrainConfig) if option.name not in _BY_NAME)
"""Fields of `TrainConfig` that options of `gpu-envs train` of the same names set."""


def changed(
    config: TrainConfig, settings: Mapping[str, Any], source: str, allowed: Collection[str] | None = None
) -> TrainConfig:
    """Return a configuration with changed settings.

    Args:
        config: Configuration of the run.
        settings: Values by field of `TrainConfig`, or by "learner.FIELD" for settings of the learners.
        source: Prefix of error messages.
        allowed: Fields of `TrainConfig` that may change; None: all but `learner`.

    Raises:
        ConfigError: A name or value is not valid.
    """
    plain = {key: value for key, value in settings.items() if not key.startswith("learner.")}
    of_learner = {key.removeprefix("learner."): value for key, value in settings.items() if key.startswith("learner.")}
    for fields, kind, prefix in ((plain, TrainConfig, ""), (of_learner, type(config.learner), "learner.")):
        valid = [field.name for field in dataclasses.fields(kind)]
        if not prefix:
            valid = [name for name in valid if name != "learner" and (allowed is None or name in allowed)]
        for key in fields:
            if key not in valid:
                names = [prefix + name for name in valid] + ([] if prefix else ["learner.NAME"])
                raise ConfigError(f"{source}: {unknown_name_message('setting', prefix + key, names)}")
        hints = get_type_hints(kind)
        lists = {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}
        try:
            check_fields(source, lists, {key: hints[key] for key in fields})
        except CheckpointError as error:
            raise ConfigError(str(error)) from None
        floats = {key for key in fields if float in (hints[key], *get_args(hints[key]))}
        fields.update({key: float(value) for key, value in fields.items() if key in floats and type(value) is int})
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in of_learner.items()}
    learner = algorithm_specs.find(config.algorithm).settings(**{**vars(config.learner), **values})
    return dataclasses.replace(config, learner=learner, **plain)


def _recorded(prefix: str, kind: type[Any], data: Any, hints: dict[str, Any]) -> dict[str, Any]:
    """Check the settings of a recorded dataclass, and add those that are missing."""
    optional = [field.name for field in dataclasses.fields(kind) if has_default(field)]
    settings = check_fields(prefix, data, hints, optional)
    return complete_settings(
        kind, {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    )


def members_by_policy(config: TrainConfig, core: Core) -> dict[str, list[str]]:
    """Return the groups that each policy controls, or single agents if the agents of a group have different policies.

    `config.policies` overrides `config.sharing` for the groups and agents that it names.

    Raises:
        ConfigError: `config.policies` names an unknown group or agent, or a policy name is not valid in file names.
    """
    for member, name in config.policies.items():
        if member not in core.groups and member not in core.possible_agents:
            valid = ", ".join((*core.groups, *core.possible_agents))
            raise ConfigError(f"policies: {core.id} has no group or agent {member!r}, only {valid:.200}")
        if not isinstance(name, str) or not name.replace("-", "_").isidentifier():  # it becomes part of a file's name
            raise ConfigError(f"policies: {member}: expected a name of letters, digits, _ and -, got {name!r}")
    names: dict[str, list[str]] = {}
    for group, rows in core.groups.items():
        agents = [core.possible_agents[row] for row in rows]
        shared_name = {"group": group, "all": "shared"}.get(config.sharing or "")
        policies = {agent: config.policies.get(group, shared_name or agent) for agent in agents}
        policies |= {agent: config.policies[agent] for agent in agents if agent in config.policies}
        if len(set(policies.values())) == 1:
            names.setdefault(policies[agents[0]], []).append(group)
        else:
            for agent, name in policies.items():
                names.setdefault(name, []).append(agent)
    return names


def make_train_core(config: TrainConfig, num_envs: int, seed: int, **overrides: Any) -> Core:
    """Create environments of a run with a number of environments and a seed; `overrides` replace settings."""
    import gpu_envs

    settings = {"workers": config.env_workers, **config.env, **overrides}
    return gpu_envs.make(
        config.env_id, num_envs=num_envs, device=config.device, seed=seed, reuse_buffers=True, **settings
    ).core


def make_eval_core(config: TrainConfig, num_envs: int, seed: int, factory: CoreFactory = make_train_core) -> Core:
    """Create environments for evaluation; the time limit truncates, if configurable, so that survivors are known."""
    core = factory(config, num_envs, seed)
    if getattr(core.config, "time_limit", "truncation") == "truncation":
        return core
    core.close()
    return factory(config, num_envs, seed, time_limit="truncation")


def anneal_parameters(core: Core, schedules: Mapping[str, Sequence[Any]], steps: int) -> None:
    """Set the environment parameters of `TrainConfig.anneal` to their values after a number of environment steps.

    Raises:
        ConfigError: The environment has no such parameter, or does not accept the value.
    """
    values: dict[str, float] = {}
    for name, (first, last, length, *shape) in schedules.items():
        schedule = find_schedule(f"anneal: {name}:", *(shape or ["linear"]))
        values[name] = last if steps >= length else schedule(first, last, steps / length)
    if values:
        core.set_params(**values)


def _check_two_level(config: TrainConfig) -> None:
    """Raise a ConfigError if a value of `decide_every`, `learn_after` or `anneal` is invalid."""
    for name, value in config.decide_every.items():
        check_value("decide_every", name, value, int, ge=1)
    for name, value in config.learn_after.items():
        check_value("learn_after", name, value, int, ge=0, lt=config.total_steps)
    for name, value in config.anneal.items():
        shape = value[3:] if isinstance(value, list | tuple) else ()
        if isinstance(value, list | tuple):  # ints are floats here: steps may be more than a size of buffers
            value = [float(number) if type(number) is int else number for number in value[:3]]
        numbers = check_value("anneal", name, value, tuple[float, ...])
        if len(numbers) != 3 or numbers[2] <= 0 or len(shape) > 1 or not all(map(is_name, map(str, shape))):
            raise ConfigError(
                f"anneal: {name}: expected the first value, the last value and the steps between them, such as "
                f"[0.0, 1.0, 100000], and perhaps module:NAME, a function of progress, got {config.anneal[name]!r:.80}"
            )
