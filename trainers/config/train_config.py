"""The configuration of a run, and the environments made from it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

import torch

from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.factory import check_played
from gpu_envs.registry import recorded_id
from trainers import algorithms
from trainers.files import check_fields
from trainers.settings import check_settings, completed, has_default, setting

if TYPE_CHECKING:
    from trainers.checkpoint import Checkpoint

CoreFactory: TypeAlias = Callable[..., Core]
"""`(config, num_envs, seed, **settings) -> core`."""
CUBLAS = "CUBLAS_WORKSPACE_CONFIG"  # variable that cuBLAS wants for deterministic sums
FIXED = ("env_id", "env", "num_envs", "seed", "sharing", "policies", "algorithm", "learner")
"""Fields of TrainConfig that a resumed run cannot change."""


@dataclass(frozen=True)
class TrainConfig:
    """A run, in values that JSON can hold."""

    env_id: str
    """Environment, such as "TagContinuous-v0"."""
    env: dict[str, Any] = field(default_factory=dict)
    """Its settings, where they differ from its defaults."""
    num_envs: int = setting(64, ">= 1")
    """Worlds simulated at once, E."""
    total_steps: int = setting(1_000_000, ">= 1")
    """Steps of worlds to train for, rounded up to whole rollouts."""
    seed: int = setting(0, "in [0, 2**63)")
    """Of environment and learners."""
    device: str = "cpu"
    """"cpu", "cuda" or "cuda:<i>"."""
    sharing: str = setting("group", ("group", "agent", "all"))
    """Who shares a policy: the agents of a "group", each "agent" its own, or "all"."""
    policies: dict[str, str] = field(default_factory=dict)
    """Which policy a group or an agent plays, where `sharing` does not say: {"adversary": "a", "agent_0": "b"}."""
    checkpoint_every: int = setting(50, ">= 1")
    """Iterations between checkpoints; there is always one at the end."""
    keep_last: int = setting(3, ">= 1")
    """Checkpoints to keep beside the best."""
    eval_episodes: int = setting(64, ">= 0")
    """Episodes that each policy plays against random ones at every checkpoint; 0 for none."""
    eval_against: str | None = setting(None, needs={"eval_episodes": "> 0"})
    """Run or checkpoint whose policies play the other sides in these evaluations; None: those play at random."""
    patience: int = setting(0, ">= 0", needs={"eval_episodes": "> 0"})
    """Evaluations without a better score after which the training ends early; 0: it never does."""
    until_return: float | None = None
    """End the training when the mean return per agent over the last 100 episodes is at least this in every group."""
    deterministic: bool = False
    """Take deterministic algorithms of torch only, and refuse operations that have none."""
    threads: int = setting(0, ">= 0")
    """Threads of torch on the CPU, one per core at most; 0 leaves them as they are."""
    capture: bool = True
    """On a GPU, record a rollout once as a CUDA graph, and replay it."""
    algorithm: str = "ppo"
    """Name of the learners' algorithm, see `trainers.algorithms`."""
    learner: Any = None
    """Settings of the learners, a dataclass of the algorithm's; None: its defaults."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)
        check_played("env", self.env)
        algorithm = algorithms.find(self.algorithm)
        if self.learner is None:
            object.__setattr__(self, "learner", algorithm.settings())
        if not isinstance(self.learner, algorithm.config_type):
            wanted, got = algorithm.config_type.__name__, type(self.learner).__name__
            raise ConfigError(f"learner: {self.algorithm} needs a {wanted}, got {got}")
        algorithm.settings(**vars(self.learner))  # what the name stands for
        if (starts := getattr(self.learner, "learning_starts", 0)) >= self.total_steps:
            raise ConfigError(
                f"learner.learning_starts = {starts}: expected fewer than total_steps = {self.total_steps}, as nothing "
                "is learned before"
            )

    @classmethod
    def of(cls, saved: Checkpoint) -> TrainConfig:
        """Read the configuration of a checkpoint's run, see `from_json`."""
        return cls.from_json(saved.config, str(saved.path / "manifest.json"))

    @classmethod
    def from_json(cls, data: dict[str, Any], file: str = "recorded configuration") -> TrainConfig:
        """The configuration that `dataclasses.asdict` gave, now or in earlier versions, which knew fewer settings.

        Args:
            data: What was recorded.
            file: Where it stands, for the message about its environment.

        Raises:
            CheckpointError: A setting is not known, or its type or value is not allowed; or the environment is in a
                module that is not imported, see `gpu_envs.registry.recorded_id`.
        """
        where = "recorded configuration"
        data = _recorded(where, cls, data, {**get_type_hints(cls), "learner": dict[str, Any]})
        recorded_id(data["env_id"], file)
        try:
            kind = algorithms.find(data["algorithm"]).config_type
            learner = _recorded(f"{where}: learner", kind, data["learner"] or {}, get_type_hints(kind))
            return cls(**{**data, "learner": kind(**learner)})
        except ConfigError as error:
            raise CheckpointError(f"{where}: {error}") from None

    def check_same_run(self, recorded: dict[str, Any], where: str) -> None:
        """Sees that this goes on with the run of a recorded configuration; CheckpointError names what differs."""
        other = TrainConfig.from_json(recorded, where)
        for name in FIXED:
            expected, got = getattr(self, name), getattr(other, name)
            if expected != got:
                raise CheckpointError(f"{where}: {name}: expected {expected}, got {got}")

    @property
    def rollout_steps(self) -> int:
        """Steps of worlds in a rollout."""
        return self.num_envs * self.learner.rollout_length

    @property
    def iterations(self) -> int:
        """Rollouts to collect, rounded up."""
        return -(-self.total_steps // self.rollout_steps)

    def use_threads(self) -> None:
        """Tells torch, which takes any number and dies of too large a one."""
        if self.threads:
            torch.set_num_threads(min(self.threads, os.cpu_count() or 1))

    def prepare(self) -> None:
        """Tells cuBLAS to be deterministic, which it hears only before CUDA starts in a process.

        Raises:
            ConfigError: It is too late for that.
        """
        if not (self.deterministic and self.device.startswith("cuda")) or os.environ.get(CUBLAS):
            return
        if torch.cuda.is_initialized():
            raise ConfigError(
                f"deterministic: CUDA runs already without {CUBLAS}; set {CUBLAS}=:4096:8 for the process"
            )
        os.environ[CUBLAS] = ":4096:8"

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Within the block torch has the run's threads and determinism, and afterwards its own again."""
        threads = torch.get_num_threads()
        strict = torch.are_deterministic_algorithms_enabled()
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        self.use_threads()
        if self.deterministic:
            torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(strict, warn_only=warn_only)


def changed(
    config: TrainConfig, settings: Mapping[str, Any], where: str, allowed: Collection[str] | None = None
) -> TrainConfig:
    """A configuration with other settings.

    Args:
        config: Of the run.
        settings: Fields of `TrainConfig`, and with "learner." before their names those of the learner's settings.
        where: Begins messages.
        allowed: Which fields of `TrainConfig` may change; None: all but `learner`.

    Raises:
        ConfigError: A name or a value that does not fit.
    """
    own = {key: value for key, value in settings.items() if not key.startswith("learner.")}
    of_learner = {key.removeprefix("learner."): value for key, value in settings.items() if key.startswith("learner.")}
    for given, kind, prefix in ((own, TrainConfig, ""), (of_learner, type(config.learner), "learner.")):
        known = [field.name for field in dataclasses.fields(kind)]
        if not prefix:
            known = [name for name in known if name != "learner" and (allowed is None or name in allowed)]
        for key in given:
            if key not in known:
                names = ", ".join(prefix + name for name in known) + ("" if prefix else "; and learner.NAME")
                raise ConfigError(f"{where}: no setting {prefix}{key}; there are {names}")
        hints = get_type_hints(kind)
        lists = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
        try:
            check_fields(where, lists, {key: hints[key] for key in given})
        except CheckpointError as error:
            raise ConfigError(str(error)) from None
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in of_learner.items()}
    learner = algorithms.find(config.algorithm).settings(**{**vars(config.learner), **values})
    return dataclasses.replace(config, learner=learner, **own)


def _recorded(where: str, kind: type[Any], data: Any, hints: dict[str, Any]) -> dict[str, Any]:
    """The settings of a recorded dataclass, checked and completed."""
    optional = [field.name for field in dataclasses.fields(kind) if has_default(field)]
    given = check_fields(where, data, hints, optional)
    return completed(kind, {name: tuple(each) if isinstance(each, list) else each for name, each in given.items()})


def members_by_policy(config: TrainConfig, core: Core) -> dict[str, list[str]]:
    """Who plays each policy: groups, or single agents where the agents of a group do not all play the same.

    `config.sharing` decides, and `config.policies` where it names the group or the agent.

    Raises:
        ConfigError: `config.policies` names nobody, or a policy by what cannot be part of a file's name.
    """
    for who, name in config.policies.items():
        if who not in core.groups and who not in core.possible_agents:
            known = ", ".join((*core.groups, *core.possible_agents))
            raise ConfigError(f"policies: {core.id} has no group or agent {who!r}, only {known:.200}")
        if not isinstance(name, str) or not name.replace("-", "_").isidentifier():  # it becomes part of a file's name
            raise ConfigError(f"policies: {who}: expected a name of letters, digits, _ and -, got {name!r}")
    names: dict[str, list[str]] = {}
    for group, rows in core.groups.items():
        agents = [core.possible_agents[row] for row in rows]
        usual = {"group": dict.fromkeys(agents, group), "all": dict.fromkeys(agents, "shared")}
        of = usual.get(config.sharing, {agent: agent for agent in agents})
        of |= dict.fromkeys(agents, config.policies[group]) if group in config.policies else {}
        of |= {agent: config.policies[agent] for agent in agents if agent in config.policies}
        if len(set(of.values())) == 1:
            names.setdefault(of[agents[0]], []).append(group)
        else:
            for agent, name in of.items():
                names.setdefault(name, []).append(agent)
    return names


def make_core(config: TrainConfig, num_envs: int, seed: int, **overrides: Any) -> Core:
    """A core of the run's environment with its own number of worlds and seed."""
    import gpu_envs

    settings = {**config.env, **overrides}
    return gpu_envs.make(
        config.env_id, num_envs=num_envs, device=config.device, seed=seed, reuse_buffers=True, **settings
    ).core


def make_eval_core(config: TrainConfig, num_envs: int, seed: int, factory: CoreFactory = make_core) -> Core:
    """A core for evaluation: its time limit truncates where that can be chosen, so that survivors can be told."""
    core = factory(config, num_envs, seed)
    if getattr(core.config, "time_limit", "truncation") == "truncation":
        return core
    core.close()
    return factory(config, num_envs, seed, time_limit="truncation")
