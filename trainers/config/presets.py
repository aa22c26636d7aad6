"""Presets: tested settings by environment, type of device and algorithm."""

from __future__ import annotations

import copy
import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_envs.definition import registry as environments
from gpu_envs.errors import ConfigError
from trainers.algorithms import algorithm_specs
from trainers.config.train_config import TrainConfig, changed


def _read_presets() -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the presets of presets.toml."""
    tables = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
    presets = {}
    for env_id, devices in tables.items():
        for device, algorithms in devices.items():
            for algorithm, settings in algorithms.items():
                base: dict[str, Any] = {}
                if like := settings.pop("like", ""):
                    base_env, base_algorithm = like.split()
                    base = tables[base_env][device][base_algorithm]
                learner = {**base.get("learner", {}), **settings.get("learner", {})}
                learner = {name: tuple(x) if isinstance(x, list) else x for name, x in learner.items()}
                presets[env_id, device, algorithm] = {**base, **settings, "learner": learner}
    return presets


PRESETS: dict[tuple[str, str, str], dict[str, Any]] = _read_presets()
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
    kind, spec = device.partition(":")[0], algorithm_specs.find(algorithm)
    presets = {name: entry for (device_type, name), entry in presets_of(env_id).items() if device_type == kind}
    settings = presets.get(algorithm)
    if settings is None:
        same_class = (name for name in presets if _config_type(env_id, kind, name) is spec.config_type)
        settings = presets.get(next(same_class, algorithm))
    env = next((entry["env"] for entry in presets.values() if "env" in entry), {})  # one game for all algorithms
    base = TrainConfig(env_id, env, device=device, algorithm=algorithm)
    if settings is None:
        return dataclasses.replace(base, **FALLBACK[kind])
    plain = {name: value for name, value in settings.items() if name not in ("env", "learner")}
    learner = {f"learner.{name}": x for name, x in settings.get("learner", {}).items() if name not in spec.fixed}
    return changed(base, {**plain, **learner}, f"{env_id}: presets")


def presets_of(env_id: str) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Return a copy of an environment's presets by type of device and algorithm: its registered ones, or `PRESETS`.

    Raises:
        UnknownEnvironmentError: The environment is unknown.
    """
    registered = environments.find(env_id).presets
    presets = registered or {(kind, name): entry for (id, kind, name), entry in PRESETS.items() if id == env_id}
    return copy.deepcopy(presets)


def _config_type(env_id: str, kind: str, algorithm: str) -> type[Any] | None:
    """Return the config class of an algorithm with a preset; None for one of a module, which has its own class."""
    if ":" in algorithm:  # its module may not be imported
        return None
    try:
        return algorithm_specs.find(algorithm).config_type
    except ConfigError as error:
        raise ConfigError(f"{env_id}: presets: {(kind, algorithm)}: {error}") from None
