"""Presets: tested settings by environment, type of device and algorithm."""

from __future__ import annotations

from typing import Any

from trainers.algorithms import registry
from trainers.config.off_policy_presets import OFF_POLICY_PRESETS
from trainers.config.on_policy_presets import ON_POLICY_PRESETS
from trainers.config.train_config import TrainConfig

__all__ = ["FALLBACK", "PRESETS", "preset"]

PRESETS: dict[tuple[str, str, str], dict[str, Any]] = {**ON_POLICY_PRESETS, **OFF_POLICY_PRESETS}
"""Settings by environment, type of device and algorithm."""
FALLBACK: dict[str, dict[str, Any]] = {
    "cpu": {"num_envs": 64, "total_steps": 500_000, "num_threads": 1},
    "cuda": {"num_envs": 2048, "total_steps": 20_000_000, "checkpoint_interval": 100},
}
"""Settings of environments without a preset, by type of device."""


def preset(env_id: str, device: str, algorithm: str = "ppo") -> TrainConfig:
    """Return the preset of an environment and algorithm on a device, "cpu", "cuda" or "cuda:<i>".

    An algorithm without a preset uses that of an algorithm with the same config class (mappo that of ppo). An
    environment without a preset uses general settings.
    """
    kind, wanted = device.partition(":")[0], registry.find(algorithm)
    near = [
        settings
        for (id, on, of), settings in PRESETS.items()
        if (id, on) == (env_id, kind) and registry.find(of).config_type is wanted.config_type
    ]
    settings = PRESETS.get((env_id, kind, algorithm)) or next(iter(near), None)
    of_all = (each["env"] for (id, on, _), each in PRESETS.items() if (id, on) == (env_id, kind) and "env" in each)
    env = next(of_all, {})  # one game for all algorithms
    if settings is None:
        return TrainConfig(env_id=env_id, device=device, algorithm=algorithm, env=env, **FALLBACK[kind])
    given = {name: value for name, value in settings["learner"].items() if name not in wanted.fixed}
    own = {"env_id": env_id, "env": env, "device": device, "algorithm": algorithm, "learner": wanted.settings(**given)}
    return TrainConfig(**{**settings, **own})
