"""Lock of the folder of a run: one process writes a run. The kernel releases the lock when the process ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from gpu_envs.errors import ConfigError, GpuEnvsError

__all__ = ["LOCK", "PATIENCE", "FolderLock", "check_free", "is_held", "shared"]

LOCK = "run.lock"  # file in the folder of a run
PATIENCE = 1.0
"""Seconds to wait for the lock: readers of a league hold it while they copy."""
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK  # safe for untrusted folders: no write through links, no wait for pipes


_locks: weakref.WeakValueDictionary[tuple[int, int], FolderLock] = weakref.WeakValueDictionary()


class FolderLock:
    """Hold the lock of a folder until `release`, the end of a `with` block, or the end of the process."""

    _file = -1

    def __init__(self, path: Path, instead: str = "stop it", take_over: bool = False) -> None:
        """Take the lock.

        Args:
            path: The folder.
            instead: Alternative to waiting, for the error message.
            take_over: Take the lock from an earlier holder in this process that also has `take_over`, such as a
                training that was interrupted in a notebook.

        Raises:
            ConfigError: The folder is not writable.
            GpuEnvsError: Another process writes the run.
        """
        try:
            self._file = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | _FLAGS, 0o644)
        except OSError as error:
            raise ConfigError(f"{path}: expected a folder to write in, got {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            self.release()
            raise ConfigError(f"{path / LOCK}: expected a file, got a pipe or a device")
        key = _inode(os.fstat(self._file))
        if take_over and (earlier := _locks.get(key)) is not None:
            earlier.release()
        deadline = time.monotonic() + PATIENCE
        while not _flock(self._file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                error = _refused(path, self._file, instead)
                self.release()
                raise error
            time.sleep(0.02)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        if take_over:
            _locks[key] = self

    def release(self) -> None:
        """Let another process write the run."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


@contextlib.contextmanager
def shared(path: Path) -> Iterator[bool]:
    """Yield whether no process writes the run; no process can start to write it within the block."""
    if not (path / LOCK).is_file() or (path / LOCK).is_symlink():
        yield True
        return
    lock = os.open(path / LOCK, os.O_RDONLY | _FLAGS)
    try:
        yield _flock(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)


def is_held(path: Path) -> bool:
    """Return whether a process writes the run at this moment."""
    with shared(path) as free:
        return not free


def check_free(path: Path) -> None:
    """Raise GpuEnvsError if another process writes the run, before long work starts."""
    if is_held(path) and _inode((path / LOCK).stat()) not in _locks:
        FolderLock(path).release()  # raises an error that names the process, unless it has ended


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _flock(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _refused(path: Path, lock: int, instead: str) -> GpuEnvsError:
    pid = os.pread(lock, 32, 0).decode(errors="replace").strip()
    owner = f"process {pid}" if pid.isdecimal() else "another process"
    return GpuEnvsError(f"{path}: {owner} is writing this run; wait for it, or {instead}")
