"""The configuration of a run, and the environments made from it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_type_hints

import torch

from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, ConfigError
from trainers.files import check_fields
from trainers.ppo import PPOConfig
from trainers.settings import check_settings, setting

CoreFactory: TypeAlias = Callable[..., Core]
"""(config, num_envs, seed, **settings) -> core."""
FIXED = ("env_id", "env", "num_envs", "seed", "policies", "ppo")
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
    policies: dict[str, str] = field(default_factory=dict)
    """Which policy a group plays, for groups that do not have their own: {"adversary": "shared", "agent": "shared"}."""
    checkpoint_every: int = setting(50, ">= 1")
    """Iterations between checkpoints; there is always one at the end."""
    keep_last: int = setting(3, ">= 1")
    """Checkpoints to keep beside the best."""
    eval_episodes: int = setting(64, ">= 0")
    """Episodes that each policy plays against random ones at every checkpoint; 0 for none."""
    threads: int = setting(0, ">= 0")
    """Threads of torch on the CPU, one per core at most; 0 leaves them as they are."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """Settings of the learners."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TrainConfig:
        """The configuration that `dataclasses.asdict` gave; CheckpointError where fields, types or values differ."""
        where = "recorded configuration"
        check_fields(where, data, {**get_type_hints(cls), "ppo": dict[str, Any]})
        ppo = check_fields(f"{where}: ppo", data["ppo"], get_type_hints(PPOConfig))
        try:
            return cls(**{**data, "ppo": PPOConfig(**{**ppo, "hidden": tuple(ppo["hidden"])})})
        except ConfigError as error:
            raise CheckpointError(f"{where}: {error}") from None

    @property
    def rollout_steps(self) -> int:
        """Steps of worlds in a rollout."""
        return self.num_envs * self.ppo.rollout_length

    @property
    def iterations(self) -> int:
        """Rollouts to collect, rounded up."""
        return -(-self.total_steps // self.rollout_steps)

    def use_threads(self) -> None:
        """Tells torch, which takes any number and dies of too large a one."""
        if self.threads:
            torch.set_num_threads(min(self.threads, os.cpu_count() or 1))


def groups_by_policy(config: TrainConfig, core: Core) -> dict[str, list[str]]:
    """Which groups each policy plays: one policy per group, of its name, unless `config.policies` says otherwise."""
    for group in config.policies:
        if group not in core.groups:
            raise ConfigError(f"policies: {core.id} has no group {group!r}, only {', '.join(core.groups)}")
    names: dict[str, list[str]] = {}
    for group in core.groups:
        name = config.policies.get(group, group)
        if not isinstance(name, str) or not name.replace("-", "_").isidentifier():  # it becomes part of a file's name
            raise ConfigError(f"policies: {group}: expected a name of letters, digits, _ and -, got {name!r}")
        names.setdefault(name, []).append(group)
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
