"""Presets: tested settings by environment, type of device and algorithm."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from gpu_envs.definition import registry as environments
from gpu_envs.errors import ConfigError
from gpu_envs.utils.suggestions import unknown_name_message
from trainers.algorithms import registry
from trainers.config.off_policy_presets import OFF_POLICY_PRESETS
from trainers.config.on_policy_presets import ON_POLICY_PRESETS
from trainers.config.train_config import TrainConfig

__all__ = ["FALLBACK", "PRESETS", "preset", "presets_of"]

PRESETS: dict[tuple[str, str, str], dict[str, Any]] = {**ON_POLICY_PRESETS, **OFF_POLICY_PRESETS}
"""Settings of this library's environments by id, type of device and algorithm."""
FALLBACK: dict[str, dict[str, Any]] = {
    "cpu": {"num_envs": 64, "total_steps": 500_000, "num_threads": 1},
    "cuda": {"num_envs": 2048, "total_steps": 20_000_000, "checkpoint_interval": 100},
}
"""Settings of environments without a preset, by type of device."""


def preset(env_id: str, device: str, algorithm: str = "ppo") -> TrainConfig:
    """Return the preset of an environment and algorithm on a device, "cpu", "cuda" or "cuda:<i>".

    An algorithm without a preset uses the preset of an algorithm with the same config class (mappo uses ppo's). An
    environment without a preset uses general settings.

    Raises:
        UnknownEnvironmentError: The environment is unknown.
        ConfigError: The preset that the environment has registered has a setting that is unknown or invalid, or there
            is none for this algorithm and one for an unknown algorithm.
    """
    kind, spec = device.partition(":")[0], registry.find(algorithm)
    presets = {of: settings for (on, of), settings in presets_of(env_id).items() if on == kind}
    settings = presets.get(algorithm)
    if settings is None:
        like = (of for of in presets if _config_type(env_id, kind, of) is spec.config_type)
        settings = presets.get(next(like, algorithm))
    env = next((entry["env"] for entry in presets.values() if "env" in entry), {})  # one game for all algorithms
    if settings is None:
        return TrainConfig(env_id=env_id, device=device, algorithm=algorithm, env=env, **FALLBACK[kind])
    settings = _checked(f"{env_id}: presets", settings, TrainConfig)
    learner = _checked(f"{env_id}: presets: learner", settings.get("learner", {}), spec.config_type)
    learner = {name: value for name, value in learner.items() if name not in spec.fixed}
    learner = spec.settings(**learner)
    arguments = {"env_id": env_id, "env": env, "device": device, "algorithm": algorithm, "learner": learner}
    return TrainConfig(**{**settings, **arguments})


def presets_of(env_id: str) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Return a copy of an environment's presets by type of device and algorithm: its registered ones, or `PRESETS`.

    Raises:
        UnknownEnvironmentError: The environment is unknown.
    """
    registered = environments.find(env_id).presets
    presets = registered or {(on, of): settings for (id, on, of), settings in PRESETS.items() if id == env_id}
    return copy.deepcopy(presets)


def _config_type(env_id: str, kind: str, algorithm: str) -> type[Any] | None:
    """Return the config class of an algorithm with a preset; None for one of a module, which has its own class."""
    if ":" in algorithm:  # its module may not be imported
        return None
    try:
        return registry.find(algorithm).config_type
    except ConfigError as error:
        raise ConfigError(f"{env_id}: presets: {(kind, algorithm)}: {error}") from None


def _checked(prefix: str, settings: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Return settings with tuples for lists; raise a ConfigError if one is no field of a dataclass."""
    names = [field.name for field in dataclasses.fields(kind)]
    for name in settings:
        if name not in names:
            raise ConfigError(f"{prefix}: {unknown_name_message('setting', name, names)}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
