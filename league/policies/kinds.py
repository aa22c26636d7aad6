"""The kinds of policies by name, for files and transport."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from gpu_envs.errors import ConfigError
from trainers.models.policy import PolicyProtocol


@runtime_checkable
class SupportsSave(Protocol):
    """An object that writes itself to files; its kind reads them."""

    def save(self, path: Path) -> None:
        """Write the files: `path` with suffixes of the kind."""
        ...


class StorablePolicy(PolicyProtocol, SupportsSave, Protocol):
    """A policy that can be saved and loaded."""


Loader = Callable[[Path, torch.device | str], PolicyProtocol]
"""Function (path, device) that loads a policy from the files that its `save(path)` wrote."""

# Class names, imported when the first policy of a kind is loaded.
_CLASSES = {
    "random": "league.policies.random:RandomPolicy",
    "policy": "trainers.models.policy:Policy",
    "table": "league.policies.tabular:TablePolicy",
    "mixture": "league.policies.mixture:MixturePolicy",
    "team": "league.policies.team:TeamPolicy",
}


def _load(location: str, path: Path, device: torch.device | str) -> PolicyProtocol:
    module, _, name = location.partition(":")
    return getattr(importlib.import_module(module), name).load(path, device)


KINDS: dict[str, Loader] = {kind: partial(_load, location) for kind, location in _CLASSES.items()}
"""Loaders by kind. Add the `load` of your own class before you open a run with such policies."""


def kind_of(policy: object) -> str:
    """Return the kind whose loader makes policies of this type.

    Raises:
        ConfigError: No kind has this type.
    """
    cls = type(policy)
    for kind, location in _CLASSES.items():
        if location == f"{cls.__module__}:{cls.__qualname__}":
            return kind
    for kind, loader in KINDS.items():
        if getattr(loader, "__self__", None) is cls:
            return kind
    raise ConfigError(
        f"{cls.__name__}: expected a type with a loader, got none; add its class method `load` to "
        "league.policies.kinds.KINDS, in this process and in the workers"
    )
