"""Database of a league's run: tables, format, opening and checks."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gpu_envs.errors import CheckpointError
from trainers.storage import folder_lock
from trainers.storage.folder_lock import PATIENCE

FORMAT = 2
"""Number of the format of the database and of the files beside it."""
DATABASE = "league.db"  # file in the folder of a run
READ_HINT = "only read: RunStore.open(path, write=False)"
"""Hint for runs that another process writes."""
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
    # AUTOINCREMENT: the name of a removed state's file is not used again
    "states": """number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, sha256 TEXT NOT NULL,
        scalars TEXT NOT NULL""",
}

_TYPES: dict[str, set[type]] = {"TEXT": {str}, "INTEGER": {int}, "REAL": {float}}
_COLUMN = r"(\w+) (TEXT|INTEGER|REAL)( PRIMARY KEY| UNIQUE| NOT NULL)?"
COLUMNS = {
    table: {name: _TYPES[kind] | (set() if bound else {type(None)}) for name, kind, bound in re.findall(_COLUMN, text)}
    for table, text in TABLES.items()
}
"""Types of values by table and column, which are checked because SQLite accepts any type in any column."""


def connect(file: Path) -> sqlite3.Connection:
    """Open a database for writing, so that a committed transaction survives a kill and a power failure."""
    with sqlite_errors(file):
        db = sqlite3.connect(file, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
    return db


def snapshot(path: Path, alone: bool = False) -> sqlite3.Connection:
    """Copy the database of a run to memory without writing in its folder.

    Args:
        path: Folder of the run.
        alone: Whether the caller holds the lock; else another process may be writing, which is not disturbed.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        # whether no other process writes, which stays so
        with contextlib.nullcontext(True) if alone else folder_lock.shared(path) as quiet:
            try:  # SQLite's helper files exist while a process writes; else they are created for a copy
                return _copied(path) if quiet else _loaded(path / DATABASE, "?mode=ro")
            except sqlite3.OperationalError:  # the writing process has just closed the database
                if quiet or time.monotonic() > deadline:
                    raise
        time.sleep(0.02)


def _copied(path: Path) -> sqlite3.Connection:
    """Load a copy of the database, with the log that a killed process may have left."""
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


def run_exists(path: Path, alone: bool = False) -> bool:
    """Return whether a folder holds a completely created run, `alone` as in `snapshot`."""
    file = path / DATABASE
    if not file.is_file():
        return False
    with sqlite_errors(file), contextlib.closing(snapshot(path, alone)) as db:
        return bool(_tables(db))


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def check_database(db: sqlite3.Connection, file: Path) -> None:
    """Raise CheckpointError if a database is damaged, or has another format or other tables."""
    with sqlite_errors(file):
        damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise CheckpointError(
                f"{file}: expected a league's database, got a damaged file ({' '.join(damage.split())})"
            )
        if "meta" not in _tables(db):
            raise CheckpointError(f"{file}: expected a league's database, got one without a run (cut short?)")
        row = db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        if row is None or not re.fullmatch(r"[0-9]{1,9}", str(row[0])):
            raise CheckpointError(f"{file}: expected a format number, got {row and row[0]!r:.80}")
        if (number := int(row[0])) != FORMAT:
            hint = "update gpu-envs" if number > FORMAT else "it is too old; use an older gpu-envs"
            raise CheckpointError(f"{file}: expected format {FORMAT}, got {number}; {hint}")
        # views, triggers and other columns would change the effect of statements
        query = "SELECT sql FROM sqlite_master WHERE sql NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        schema = {" ".join(statement.split()) for (statement,) in db.execute(query)}
        expected = {" ".join(f"CREATE TABLE {name} ({columns})".split()) for name, columns in TABLES.items()}
        if difference := schema ^ expected:
            statement = min(difference)
            kind = "an unknown" if statement in schema else "no"
            words = statement.removeprefix("CREATE ")
            raise CheckpointError(f"{file}: expected the schema of format {FORMAT}, got {kind} {words:.80}")


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit the writes of the block, or roll them back if it raises."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def savepoint(db: sqlite3.Connection) -> Iterator[None]:
    """Keep the writes of the block inside a transaction, or roll them back if it raises."""
    db.execute("SAVEPOINT part")
    try:
        yield
        db.execute("RELEASE part")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK TO part")
            db.execute("RELEASE part")
        raise


@contextlib.contextmanager
def sqlite_errors(file: Path) -> Iterator[None]:
    """Raise errors of SQLite as OSError or CheckpointError with the name of the file, except errors in statements."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        undecodable = isinstance(error, sqlite3.OperationalError) and "decode" in str(error)  # text is not UTF-8
        if isinstance(error, sqlite3.OperationalError) and not undecodable:  # a full disk, a lock, no permission
            raise OSError(f"{file}: cannot be read or written ({error})") from error
        if undecodable or type(error) is sqlite3.DatabaseError:
            raise CheckpointError(f"{file}: expected a league's database, got a damaged file ({error})") from error
        raise
