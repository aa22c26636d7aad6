"""Lock of the folder of a run: one process writes a run, and readers can keep writers away while they copy.

Locks are of `flock`: the kernel releases a lock when its process ends, even by SIGKILL, so no lock is ever stale.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from gpu_envs.errors import ConfigError, GpuEnvsError

LOCK = "run.lock"  # file in the folder of a run
PATIENCE = 1.0
"""Seconds to wait for the lock: readers of a league hold it while they copy."""
_RETRY = 0.02  # seconds between attempts
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK  # safe for untrusted folders: no write through links, no wait for pipes

# Locks of this process that another holder may take over, by the device and inode of their files.
_replaceable: weakref.WeakValueDictionary[tuple[int, int], FolderLock] = weakref.WeakValueDictionary()


class FolderLock:
    """Hold the lock of a folder until `release`, the end of a `with` block, or the end of the process."""

    _file = -1  # descriptor of the locked file; -1: not held

    def __init__(self, path: Path, instead: str = "stop it", take_over: bool = False) -> None:
        """Take the lock, waiting for up to `PATIENCE` seconds.

        Args:
            path: The folder.
            instead: Alternative to waiting, for the error message.
            take_over: Take the lock from an earlier holder in this process that also has `take_over`, such as a
                training that was interrupted in a notebook.

        Raises:
            ConfigError: The folder is not writable, or its lock is not a file.
            GpuEnvsError: Another process writes the run.
        """
        self._file = _open_lock(path)
        key = _inode(os.fstat(self._file))
        if take_over and (earlier := _replaceable.get(key)) is not None:
            earlier.release()
        deadline = time.monotonic() + PATIENCE
        while not _try_flock(self._file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                error = _held_error(path, self._file, instead)
                self.release()
                raise error
            time.sleep(_RETRY)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)  # for the message to others
        if take_over:
            _replaceable[key] = self

    def release(self) -> None:
        """Let another process write the run. A second call does nothing."""
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
    """Yield whether no process writes the run. If so, none can start to write it within the block.

    A folder without a lock file yields True and is not protected: nothing is created in a folder that is only read.
    """
    if not (path / LOCK).is_file() or (path / LOCK).is_symlink():
        yield True
        return
    lock = os.open(path / LOCK, os.O_RDONLY | _FLAGS)
    try:
        yield _try_flock(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)


def is_held(path: Path) -> bool:
    """Return whether a process writes the run at this moment."""
    with shared(path) as free:
        return not free


def check_free(path: Path) -> None:
    """Raise GpuEnvsError if another process writes the run, before long work starts.

    A lock of this process that can be taken over counts as free.
    """
    if not is_held(path):
        return
    lock = _replaceable.get(_inode((path / LOCK).stat()))
    if lock is None or lock._file < 0:  # not held by this process
        FolderLock(path).release()  # raises an error that names the process, unless it has ended


def _open_lock(path: Path) -> int:
    """Return a descriptor of the lock file of a folder, which is created if it is missing."""
    try:
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | _FLAGS, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(f"{path / LOCK}: expected a file, got a symbolic link; delete it") from error
        raise ConfigError(f"{path}: expected a folder to write in, got {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise ConfigError(f"{path / LOCK}: expected a file, got a pipe or a device; delete it")
    return lock


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _try_flock(lock: int, kind: int) -> bool:
    """Return whether the lock was taken, LOCK_EX or LOCK_SH, without waiting."""
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _held_error(path: Path, lock: int, instead: str) -> GpuEnvsError:
    """Return the error that names the process that holds the lock."""
    pid = os.pread(lock, 32, 0).decode(errors="replace").strip()
    owner = f"process {pid}" if pid.isdecimal() else "another process"
    return GpuEnvsError(f"{path}: {owner} is writing this run; wait for it, or {instead}")
