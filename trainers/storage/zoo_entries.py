"""Folders of the model zoo by name; checkpoints are found by "zoo:NAME"."""

from __future__ import annotations

from pathlib import Path

from gpu_envs.errors import ConfigError

__all__ = ["FOLDER", "ZOO", "folder", "names"]

FOLDER = Path(__file__).parents[1] / "zoo"  # models of the library


def names() -> list[str]:
    """Return the names of all entries."""
    return sorted(path.name for path in FOLDER.iterdir() if (path / "about.json").exists()) if FOLDER.exists() else []


def folder(name: str) -> Path:
    """Return the folder of an entry; raise ConfigError for an unknown name."""
    if name not in names():
        raise ConfigError(f"model zoo: expected one of {', '.join(names())}, got {name!r}")
    return FOLDER / name


ZOO = "zoo:"
"""Prefix that marks a name of the model zoo in place of a path."""
