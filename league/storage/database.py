"""The database of a league's run: its tables and their format, and how it is opened."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from gpu_envs.errors import CheckpointError
from trainers import folder_lock
from trainers.folder_lock import PATIENCE

FORMAT = 1
"""Of the database and the files beside it."""
MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {}
"""By format: what makes it one newer, inside a transaction."""
DATABASE = "league.db"  # file in the folder of a run
READ = "only read: Store.open(path, write=False)"
"""What can be done with a run that another process writes."""
TABLES = {
    "meta": "key TEXT PRIMARY KEY, value TEXT NOT NULL",
    "policies": """number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, role TEXT NOT NULL, position INTEGER NOT NULL,
        name TEXT NOT NULL, kind TEXT NOT NULL, parent INTEGER, iteration INTEGER NOT NULL, meta TEXT NOT NULL,
        sha256 TEXT NOT NULL, UNIQUE (role, position), UNIQUE (role, name)""",
    "cells": """matchup TEXT NOT NULL, seat INTEGER NOT NULL, count INTEGER NOT NULL, total REAL NOT NULL,
        square REAL NOT NULL, score REAL NOT NULL, UNIQUE (matchup, seat)""",
    "tasks": "number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, result TEXT NOT NULL",
    "matches": """iteration INTEGER NOT NULL, role TEXT NOT NULL, matchup TEXT NOT NULL, count INTEGER NOT NULL,
        UNIQUE (iteration, role, matchup)""",
    "iterations": "number INTEGER PRIMARY KEY, summary TEXT NOT NULL",
    "kv": "key TEXT PRIMARY KEY, value TEXT NOT NULL",
    # AUTOINCREMENT: a file of an older state never gets a newer one's name
    "states": """number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, sha256 TEXT NOT NULL,
        scalars TEXT NOT NULL""",
}

_TYPES: dict[str, set[type]] = {"TEXT": {str}, "INTEGER": {int}, "REAL": {float}}
_COLUMN = r"(\w+) (TEXT|INTEGER|REAL)( PRIMARY KEY| UNIQUE| NOT NULL)?"
COLUMNS = {
    table: {name: _TYPES[kind] | (set() if bound else {type(None)}) for name, kind, bound in re.findall(_COLUMN, text)}
    for table, text in TABLES.items()
}
"""By table and column, the types of its values: SQLite itself takes any value in any column."""


def connect(file: Path) -> sqlite3.Connection:
    """For writing: a committed transaction survives a kill and, once its log is flushed, a power cut."""
    with Told(file):
        db = sqlite3.connect(file, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
    return db


def snapshot(path: Path, alone: bool = False) -> sqlite3.Connection:
    """A run's database as it is now, in memory, with nothing written in its folder.

    Args:
        path: The run.
        alone: The caller has the lock; else somebody may be writing, who is not disturbed.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        with _quiet(path, alone) as quiet:
            try:  # the files that SQLite makes to read are there if somebody writes, else a copy gets them
                return _copied(path) if quiet else _loaded(path / DATABASE, "?mode=ro")
            except sqlite3.OperationalError:  # whoever wrote has just gone
                if quiet or time.monotonic() > deadline:
                    raise
        time.sleep(0.02)


def _quiet(path: Path, alone: bool) -> contextlib.AbstractContextManager[bool]:
    """Whether nobody else writes, and will not while this lasts."""
    return contextlib.nullcontext(True) if alone else folder_lock.shared(path)


def _copied(path: Path) -> sqlite3.Connection:
    """With what a killed process left beside the database, to be put into it."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (DATABASE, f"{DATABASE}-wal"):
            if (path / name).exists():
                shutil.copyfile(path / name, Path(folder) / name)
        return _loaded(Path(folder) / DATABASE)


def _loaded(file: Path, how: str = "") -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:", isolation_level=None)
    with contextlib.closing(sqlite3.connect(file.resolve().as_uri() + how, uri=True)) as source:
        source.backup(memory)
    return memory


def begun(path: Path, alone: bool = False) -> bool:
    """Whether a folder holds a run, `alone` as in `snapshot`; a process killed while it made one leaves none."""
    file = path / DATABASE
    if not file.is_file():
        return False
    with Told(file), contextlib.closing(snapshot(path, alone)) as db:
        return bool(_tables(db))


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def check(db: sqlite3.Connection, file: Path) -> None:
    """Sees that a database is whole and of this format, which it is brought to if need be; else CheckpointError."""
    with Told(file):
        damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise CheckpointError(
                f"{file}: expected a league's database, got a damaged file ({' '.join(damage.split())})"
            )
        if "meta" not in _tables(db):
            raise CheckpointError(f"{file}: expected a league's database, got one without a run (cut short?)")
        row = db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        if row is None or not re.fullmatch(r"[0-9]{1,9}", str(row[0])):
            raise CheckpointError(f"{file}: expected the number of a format, got {row and row[0]!r:.80}")
        found = int(row[0])
        if found > FORMAT:
            raise CheckpointError(
                f"{file}: format {found} is newer than {FORMAT}, which this gpu-envs reads; update it"
            )
        if missing := [each for each in range(found, FORMAT) if each not in MIGRATIONS]:
            raise CheckpointError(
                f"{file}: format {missing[0]} is too old for this gpu-envs, which reads {FORMAT}; use an older version"
            )
        for each in range(found, FORMAT):
            with transaction(db):
                MIGRATIONS[each](db)
                db.execute("UPDATE meta SET value = ? WHERE key = 'format'", (each + 1,))
        if lost := TABLES.keys() - _tables(db):
            raise CheckpointError(f"{file}: expected the tables of format {FORMAT}, got no {', '.join(sorted(lost))}")
        # Views, triggers, and tables of another kind would change what statements do.
        for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"):
            columns = db.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (name,)).fetchall()
            hidden, lost = (
                any(each for _, each in columns),
                COLUMNS.get(name, {}).keys() - {each for each, _ in columns},
            )
            if kind != "table" or not str(sql).startswith("CREATE TABLE") or hidden or lost:
                raise CheckpointError(
                    f"{file}: expected the tables of format {FORMAT}, got {kind} {name!r:.80} of another kind (damaged)"
                )


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commits what happens inside, or takes it all back."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def part(db: sqlite3.Connection) -> Iterator[None]:
    """Within a transaction: keeps what happens inside, or takes that back."""
    db.execute("SAVEPOINT part")
    try:
        yield
        db.execute("RELEASE part")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK TO part")
            db.execute("RELEASE part")
        raise


class Told:
    """SQLite's errors in words of ours: `with Told(file): ...`, as often as need be."""

    def __init__(self, file: Path) -> None:
        """The database."""
        self.file = file

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raises OSError or CheckpointError for what SQLite has raised; mistakes in statements stay what they are."""
        undecodable = isinstance(error, sqlite3.OperationalError) and "decode" in str(error)  # text that is no UTF-8
        if isinstance(error, sqlite3.OperationalError) and not undecodable:  # a full disk, a lock, no permission
            raise OSError(f"{self.file}: cannot be read or written ({error})") from error
        if undecodable or type(error) is sqlite3.DatabaseError:
            raise CheckpointError(f"{self.file}: expected a league's database, got a damaged file ({error})") from error
