"""Steps of a run: groups of writes that are committed as a whole or not at all."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_envs.errors import GpuEnvsError
from league.storage import database
from league.storage.policy_files import remove_orphans, state_file_name
from league.storage.records import to_json
from league.storage.store_reader import StoreReader
from trainers.base.serialization import fsync_folder
from trainers.storage.folder_lock import FolderLock

__all__ = ["StepStore", "StoreStep"]


@dataclass
class StoreStep:
    """Work that remains when an open step is committed."""

    task: str | None
    """Task that the step completes."""
    folders: set[Path] = field(default_factory=set)
    """Folders with new files, flushed before the commit."""
    outdated: list[Path] = field(default_factory=list)
    """Files that no record names after the commit, removed then."""


class StepStore(StoreReader):
    """The part of `RunStore` that opens, commits and rolls back steps."""

    def __init__(self, path: Path, db: sqlite3.Connection, lock: FolderLock | None) -> None:
        """Read a run, for writing if a lock is given.

        Args:
            path: Folder of the run.
            db: Its database, which `database.check_database` has accepted.
            lock: Lock of the folder; None: the run is read only.
        """
        super().__init__(path, db)
        self._lock = lock
        self._step: StoreStep | None = None
        self._steps: list[StoreStep] | None = None  # steps of the open batch
        if lock is not None:
            self._remove_orphans()

    @contextlib.contextmanager
    def step(self, task: str | None = None) -> Iterator[dict[str, Any]]:
        """Commit all writes of the block, or none of them.

        Args:
            task: Task that the step completes; a task is completed once. None: a repeatable step, which may replace
                values but not add any.

        Yields:
            The result of the task, a dictionary of JSON values to fill.

        Raises:
            GpuEnvsError: The task is complete already, the run is open for reading, or another step is open.
        """
        self._check_writable()
        if self._step is not None:
            raise GpuEnvsError(f"{self.path}: a step is open already; end it before the next")
        if task is not None and self.done(task):
            raise GpuEnvsError(f"{self.path}: task {task!r} is done already; check store.done(task) first")
        step, result = StoreStep(task), {}
        self._step = step
        try:
            with contextlib.nullcontext() if self._steps is not None else self.together():
                with self._sqlite_errors, database.savepoint(self._db):
                    yield result
                    if task is not None:
                        self._run("INSERT INTO tasks (name, result) VALUES (?, ?)", (task, to_json(result)))
                assert self._steps is not None
                self._steps.append(step)
        except BaseException:
            self._read_populations()
            raise
        finally:
            self._step = None

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Commit the steps of the block in one transaction, which waits for the disk once.

        A step that fails is rolled back alone. If the process is killed, none of the steps is committed.

        Raises:
            GpuEnvsError: The run is open for reading or closed, or another such block is open.
        """
        self._check_writable()
        if self._steps is not None:
            raise GpuEnvsError(f"{self.path}: a batch of steps is open already; end it before the next")
        self._steps, failed = [], None
        try:
            with self._sqlite_errors, database.transaction(self._db):
                try:
                    yield
                except BaseException as error:
                    if not self._db.in_transaction:  # the disk is full
                        raise
                    failed = error
                for folder in {folder for step in self._steps for folder in step.folders}:
                    fsync_folder(folder)
        except BaseException:
            self._read_populations()
            self._remove_orphans()
            raise
        else:
            for path in (path for step in self._steps for path in step.outdated):
                path.unlink(missing_ok=True)
        finally:
            self._steps = None
        if failed is not None:
            self._read_populations()
            self._remove_orphans()
            raise failed

    def _check_writable(self) -> None:
        if self._lock is None:
            raise GpuEnvsError(f"{self.path}: expected a run open for writing, got one opened for reading, or closed")

    def _run(self, sql: str, *rows: tuple[Any, ...]) -> None:
        with self._sqlite_errors:
            self._db.executemany(sql, rows)

    def _open_step(self, method: str) -> StoreStep:
        """Return the open step; raise GpuEnvsError if there is none."""
        if self._step is None:
            raise GpuEnvsError(f"{self.path}: {method}: expected to be inside of store.step(), got no step")
        return self._step

    def _open_task(self, method: str) -> StoreStep:
        """Return the open step of a task; raise GpuEnvsError if there is none."""
        step = self._open_step(method)
        if step.task is None:
            raise GpuEnvsError(f"{self.path}: {method}: expected a step with a task; use store.step('task')")
        return step

    def _remove_orphans(self) -> None:
        """Remove files that no record names."""
        policies = {file for pool in self.populations.values() for entry in pool.entries for file in entry.sha256}
        states = {state_file_name(number) for (number,) in self._read("states", ("number",))}
        remove_orphans(self.path / "policies", policies)
        remove_orphans(self.path / "states", states)
