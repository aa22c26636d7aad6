"""Checks of output paths before long work, and the working folder."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from gpu_envs.errors import ConfigError

LONGEST = 200
"""Maximum length of a file name [bytes]; file systems allow 255, and temporary names are longer."""
_SAFE_PATH = threading.Lock()  # held while the environment of this process is changed


@contextlib.contextmanager
def existing_folder() -> Iterator[None]:
    """Work in the root folder within the block if the working folder was deleted: PettingZoo's import asks for it."""
    try:
        os.getcwd()
        deleted = None
    except FileNotFoundError:
        deleted = os.open(".", os.O_RDONLY)
        os.chdir("/")
    try:
        yield
    finally:
        if deleted is not None:
            os.fchdir(deleted)
            os.close(deleted)


@contextlib.contextmanager
def utf8_name(path: Path) -> Iterator[str]:
    """Return, within the block, a name of an existing path for libraries that refuse names which are no UTF-8."""
    try:
        name = str(path)
        name.encode("utf-8")
        descriptor = None
    except UnicodeEncodeError:
        descriptor = os.open(path, os.O_RDONLY)
        name = f"/proc/self/fd/{descriptor}"
    try:
        yield name
    finally:
        if descriptor is not None:
            os.close(descriptor)


def check_folder(path: Path) -> None:
    """Raise a ConfigError unless files can be written in a folder, or the folder can be made."""
    nearest = _nearest(path)
    if not nearest.is_dir():
        raise ConfigError(f"{path}: expected a folder that can be made, got the file {nearest}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"{path}: expected a folder that can be made, got {nearest}, which cannot be written")


def check_file(path: Path, option: str = "--output") -> None:
    """Raise a ConfigError that names the option unless a file can be written."""
    if _nearest(path) == path:
        if not path.is_file():
            raise ConfigError(f"{option} {path}: expected a file, got a {'folder' if path.is_dir() else 'device'}")
        if not os.access(path, os.W_OK):
            raise ConfigError(f"{option} {path}: expected a file that can be written, got one that cannot")
    check_folder(path.parent)


def _nearest(path: Path) -> Path:
    """Return the path or its nearest existing parent; raise a ConfigError if a new name is not a valid file name."""
    if "\0" in str(path):
        raise ConfigError(f"{str(path)!r:.80}: expected a path, got one with a NUL")
    nearest = next(parent for parent in (path, *path.absolute().parents) if os.path.exists(parent))
    new = [] if nearest == path else path.absolute().relative_to(nearest).parts
    if new and (longest := max(len(os.fsencode(parent)) for parent in new)) > LONGEST:
        raise ConfigError(f"{str(path)!r:.80}: expected names of at most {LONGEST} bytes, got one of {longest}")
    return nearest


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Start processes without the working folder in their module search path, which `python -c` adds."""
    with _SAFE_PATH:
        previous = os.environ.get("PYTHONSAFEPATH")
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            yield
        finally:
            if previous is None:
                del os.environ["PYTHONSAFEPATH"]
            else:
                os.environ["PYTHONSAFEPATH"] = previous
