"""The adapter of an environment that a user's function makes: the one of the library whose class it has."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from gpu_envs.errors import ConfigError, shown
from gpu_envs.host.worlds import World


def make_world(source: Callable[..., Any], settings: dict[str, Any]) -> World:
    """Return a world of the environment that a function returns.

    Raises:
        ConfigError: It is no environment of PettingZoo, Gymnasium or OpenSpiel.
    """
    env = source(**settings)
    for library, names in (
        ("pettingzoo", ("ParallelEnv", "AECEnv")),
        ("gymnasium", ("Env",)),
        ("pyspiel", ("Game",)),
    ):
        module = sys.modules.get(library)  # whose class the environment has is imported
        if module is not None and isinstance(env, tuple(getattr(module, name) for name in names)):
            adapter = importlib.import_module(f"gpu_envs.host.{'open_spiel' if library == 'pyspiel' else library}")
            return adapter.make_world(lambda: env, {})
    raise ConfigError(f"expected an environment of PettingZoo, Gymnasium or OpenSpiel, got {shown(env)}")
