"""Paths that are to be written, checked before long work."""

import os
from pathlib import Path

from gpu_envs.errors import ConfigError

LONGEST = 200
"""Bytes that the name of a file may have; file systems take 255, and temporary names are longer."""


def check_folder(path: Path) -> None:
    """Checks, before long work, that files can be written in a folder or that it can be made; raises ConfigError."""
    there = _nearest(path)
    if not there.is_dir():
        raise ConfigError(f"{path}: expected a folder that can be made, got the file {there}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"{path}: expected a folder that can be made, got {there}, which cannot be written")


def check_file(path: Path, option: str = "--out") -> None:
    """Checks, before long work, that a file can be written; raises ConfigError, which names the option."""
    if _nearest(path) == path:
        if not path.is_file():
            raise ConfigError(f"{option} {path}: expected a file, got a {'folder' if path.is_dir() else 'device'}")
        if not os.access(path, os.W_OK):
            raise ConfigError(f"{option} {path}: expected a file that can be written, got one that cannot")
    check_folder(path.parent)


def _nearest(path: Path) -> Path:
    """The path, or the first of its parents that is there; ConfigError where a name in it cannot be one of a file."""
    if "\0" in str(path):
        raise ConfigError(f"{str(path)!r:.80}: expected a path, got one with a NUL")
    there = next(each for each in (path, *path.absolute().parents) if os.path.exists(each))
    new = [] if there == path else path.absolute().relative_to(there).parts
    if new and (longest := max(len(os.fsencode(each)) for each in new)) > LONGEST:
        raise ConfigError(f"{str(path)!r:.80}: expected names of at most {LONGEST} bytes, got one of {longest}")
    return there
