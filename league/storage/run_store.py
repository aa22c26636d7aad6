"""Store of a league's run: one folder, which stays consistent if the process is killed.

::

    league.db               SQLite: game, configuration, policies and their lineage, payoff cells, tasks, matches,
                            iterations, values by key
    policies/ID.*           files of each policy, in the format of its kind
    states/NUMBER.*         tensors of learners during training
    run.lock                held by the process that writes

Writes are grouped in steps. A step is committed as a whole or not at all::

    if not store.done("3/payoffs"):
        results = simulate_matchups(..., seed=derive_named_seed(seed, "3/payoffs"))
        with store.step("3/payoffs") as result:
            store.add_results(matchups, results)
            result["episodes"] = 1000

A step that names a task is committed once per run. Methods that add (policies, results, matches) need such a step, so
that a resumed run counts nothing twice. Random draws are not stored: a resumed run repeats them with
`derive_named_seed`. Files are written before their step is committed. Files without a record are removed when the run
is opened for writing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import operator
import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import gpu_envs
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from gpu_envs.utils.paths import check_folder
from gpu_envs.utils.summaries import Summarized, Summary
from league.game import Game
from league.matchups.matchups import MatchupResults
from league.policies.kinds import SupportsSave, kind_of
from league.policies.population import PolicyRecord, Population
from league.policies.team import random_policy
from league.storage import database
from league.storage.records import (
    CONFIG_FIELDS,
    MAX_EPISODES,
    MatchCounts,
    PayoffCells,
    check_rows,
    checked_array,
    matchup_indices,
    matchup_key,
    read_json,
    to_host,
    to_json,
)
from trainers.base.random_streams import SEEDS
from trainers.base.serialization import check_digests, fsync_folder, read_tensors, sha256, write_tensors
from trainers.storage.folder_lock import FolderLock
from trainers.storage.run_folder import check_kind

PARTIAL_PREFIX = ".writing-"
"""Prefix of the names of incomplete files."""


def derive_named_seed(seed: int, *words: str | int) -> int:
    """Derive the seed of one random stream of a run from the run's seed and the words that name the stream.

    Returns:
        Seed in [0, 2**63).
    """
    text = json.dumps([operator.index(seed), *(w if isinstance(w, str) else operator.index(w) for w in words)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % SEEDS


@dataclass
class StoreStep:
    """Work that remains when an open step is committed."""

    task: str | None
    """Task that the step completes."""
    folders: set[Path] = field(default_factory=set)
    """Folders with new files, flushed before the commit."""
    outdated: list[Path] = field(default_factory=list)
    """Files that no record names after the commit, removed then."""


class RunStore(Summarized):
    """Store of one run; see the module's documentation. Values are read at any time and written inside `step`.

    A run opened with `write=False` is a snapshot: nothing is written, and a writing process is not disturbed. A store
    is used by one thread, and closed by `close` or `with`. Every value that is read is checked, because a file may be
    damaged or come from another author; a CheckpointError names the file, the table and the field.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, lock: FolderLock | None) -> None:
        """Read the game, the configuration and the populations; `create` and `open` call it.

        Args:
            path: Folder of the run.
            db: Its database, which `database.check_database` has accepted.
            lock: Lock of the folder; None: the run is read only.

        Raises:
            CheckpointError: A value is damaged.
        """
        self.path: Path = path
        self._db = db
        self.file: Path = path / database.DATABASE
        meta = dict(self._read("meta", ("key", "value")))
        if lost := {"game", "config", "version"} - meta.keys():
            raise CheckpointError(
                f"{self.file}: expected a run's game, config and version, got no {min(lost)} (damaged)"
            )
        self.game: Game = Game.from_json(self._json("meta", "game", meta["game"], Any), f"{self.file}: meta: game")
        self.config: dict[str, Any] = self._json("meta", "config", meta["config"], CONFIG_FIELDS)
        self.version: str = meta["version"]
        self.populations: dict[str, Population] = {
            role: Population(role, path / "policies") for role in self.game.roles
        }
        self._read_populations()
        self._lock = lock
        self._step: StoreStep | None = None
        self._steps: list[StoreStep] | None = None  # steps of the open batch
        if lock is not None:
            self._remove_orphans()

    @classmethod
    def create(cls, path: Path | str, game: Game, config: Mapping[str, Any]) -> RunStore:
        """Create a run and open it for writing.

        Args:
            path: Folder without a run; it is created if it does not exist.
            game: Game of the run.
            config: Configuration of the run, JSON.

        Raises:
            ConfigError: The folder holds a run of any kind, or cannot be created.
            GpuEnvsError: Another process is writing there.
        """
        path = Path(path)
        check_kind(path, "league")
        check_folder(path)
        path.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo:
            lock = undo.enter_context(FolderLock(path, database.READ_HINT))
            file = path / database.DATABASE
            if database.run_exists(path, alone=True):
                raise ConfigError(
                    f"{path}: expected a folder without a run; resume it with RunStore.open, or choose another folder"
                )
            for folder in (path / "policies", path / "states"):
                folder.mkdir(exist_ok=True)
                if stray := next(folder.iterdir(), None):
                    raise ConfigError(
                        f"{stray}: left by another run, whose {database.DATABASE} is missing; choose another folder"
                    )
            db = database.connect(file)
            undo.callback(db.close)
            meta = {
                "format": database.FORMAT,
                "version": gpu_envs.__version__,
                "game": to_json(game.to_json()),
                "config": to_json(dict(config)),
            }
            with database.sqlite_errors(file), database.transaction(db):
                for name, columns in database.TABLES.items():
                    db.execute(f"CREATE TABLE {name} ({columns})")
                db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            fsync_folder(path)
            store = cls(path, db, lock)
            undo.pop_all()
        return store

    @classmethod
    def open(cls, path: Path | str, write: bool = True) -> RunStore:
        """Open an existing run.

        Args:
            path: Folder of the run.
            write: True: open to resume the run. False: read a snapshot, also while another process writes.

        Raises:
            ConfigError: The folder holds no run.
            CheckpointError: The run is damaged or has an unsupported format; no file is changed.
            GpuEnvsError: Another process is writing the run.
        """
        path = Path(path)
        file = path / database.DATABASE
        if not file.is_file():
            raise ConfigError(f"{path}: expected the folder of a league's run, got no {database.DATABASE} in it")
        with contextlib.ExitStack() as undo:
            lock = undo.enter_context(FolderLock(path, database.READ_HINT)) if write else None
            with database.sqlite_errors(file):
                db = database.snapshot(path, alone=write)
            undo.callback(db.close)
            database.check_database(db, file)
            db.execute("PRAGMA query_only = 1")
            store = cls(path, db, None)
            if write:  # damage and newer formats are found in the copy, before the file is touched
                store.close()
                db = database.connect(file)
                undo.callback(db.close)
                database.check_database(db, file)
                store = cls(path, db, lock)
            undo.pop_all()
        return store

    @staticmethod
    def run_exists(path: Path | str) -> bool:
        """Return whether a folder holds a run that can be opened."""
        return database.run_exists(Path(path))

    def close(self) -> None:
        """Close the run, so that another process may write it."""
        self._db.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _summary(self) -> Summary:
        """Return the game and the populations; the database may be closed."""
        return self.summary_with(algorithm=self.config.get("algorithm"))

    def summary_with(self, **facts: Any) -> Summary:
        """Return the summary of a run of this store, with further facts."""
        rows = []
        for role, population in self.populations.items():
            seats = ", ".join(self.game.seats[seat].name for seat in self.game.seats_of(role))
            rows.append((role, seats, len(population), population.entries[-1].name if len(population) else "none"))
        facts |= {"path": self.path}
        return Summary(self.game.env_id, facts, ("role", "seats", "policies", "newest"), rows)

    # ---------------------------------------------------------------- tasks

    def done(self, task: str) -> bool:
        """Return whether a task is complete."""
        return bool(self._rows("SELECT 1 FROM tasks WHERE name = ?", task))

    def result(self, task: str, hints: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Read the result of a complete task.

        Args:
            task: Name of the task.
            hints: Required fields and their types.

        Raises:
            GpuEnvsError: The task is not complete.
            CheckpointError: A field is missing or has another type.
        """
        rows = self._read("tasks", ("result",), "WHERE name = ?", task)
        if not rows:
            raise GpuEnvsError(f"{self.path}: task {task!r} is not done, it has no result")
        return self._json("tasks", f"result of {task!r:.80}", rows[0][0], hints or {}, hints or ())

    def tasks(self) -> list[str]:
        """Return the names of all complete tasks, in the order of completion."""
        return [name for (name,) in self._read("tasks", ("name",), "ORDER BY number")]

    # ---------------------------------------------------------------- tables

    def cells(self) -> PayoffCells:
        """Read the payoff cells, the sums of all results of `add_results`.

        Raises:
            CheckpointError: A value is damaged.
        """
        names = ("matchup", "seat", "count", "total", "square", "score")
        rows, seats = self._read("cells", names, "ORDER BY rowid"), len(self.game.seats)
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        if columns[1] != tuple(range(seats)) * (len(rows) // seats):  # a matchup has consecutive rows
            raise CheckpointError(f"{self.file}: cells.seat: expected every seat of a matchup in turn (damaged)")
        keys, counts = (np.array(column, object).reshape(-1, seats) for column in (columns[0], columns[2]))
        if (keys != keys[:, :1]).any() or (counts != counts[:, :1]).any():
            raise CheckpointError(
                f"{self.file}: cells: expected the same matchup and count for all its seats (damaged)"
            )
        matchups = self._matchups_of("cells", columns[0][::seats], 0)
        self._check_counts("cells", columns[2])
        total, square, score = (np.array(column, np.float64).reshape(-1, seats) for column in columns[3:])
        for name, values in (("total", total), ("square", square), ("score", score)):
            if not np.isfinite(values).all():
                raise CheckpointError(f"{self.file}: cells.{name}: expected finite numbers (damaged)")
        return PayoffCells(matchups, np.array(counts[:, 0], np.int64), total, square, score)

    def matches(self) -> list[MatchCounts]:
        """Read training matches by iteration, role and matchup, in the order of their first episode."""
        rows = self._read("matches", ("iteration", "role", "matchup", "count"), "ORDER BY rowid")
        players = self._matchups_of("matches", [row[2] for row in rows], -1).tolist()
        self._check_counts("matches", [row[3] for row in rows])
        return [MatchCounts(row[0], row[1], tuple(matchup), row[3]) for row, matchup in zip(rows, players, strict=True)]

    def iterations(
        self, hints: Mapping[str, Any] | None = None, required: Collection[str] = ()
    ) -> dict[int, dict[str, Any]]:
        """Read the summaries of iterations.

        Args:
            hints: Types of known fields.
            required: Required fields.

        Raises:
            CheckpointError: A field is missing or has another type.
        """
        rows = self._read("iterations", ("number", "summary"), "ORDER BY number")
        if rows and not 0 <= rows[0][0] == rows[-1][0] - len(rows) + 1:
            raise CheckpointError(f"{self.file}: iterations.number: expected all from the first to the last (damaged)")
        return {n: self._json("iterations", f"summary of {n}", text, hints or {}, required) for n, text in rows}

    def get(self, key: str, default: Any = None, hint: Any = Any) -> Any:
        """Read a value of `put`; raise CheckpointError if it does not have the type `hint`."""
        rows = self._read("kv", ("value",), "WHERE key = ?", key)
        return self._json("kv", key, rows[0][0], hint) if rows else default

    def has_state(self, name: str) -> bool:
        """Return whether a state is stored under a name."""
        return bool(self._rows("SELECT 1 FROM states WHERE name = ?", name))

    def state_names(self) -> list[str]:
        """Return the names of all stored states, in alphabetical order."""
        return [name for (name,) in self._rows("SELECT name FROM states ORDER BY name")]

    def state(self, name: str, device: torch.device | str = "cpu") -> dict[str, Any] | None:
        """Read a state of `put_state`, None if there is none; raise CheckpointError if its file is damaged."""
        rows = self._read("states", ("number", "sha256", "scalars"), "WHERE name = ?", name)
        if not rows:
            return None
        number, digest, text = rows[0]
        scalars = self._json("states", f"scalars of {name!r:.80}", text, dict[str, int | float | str | bool])
        check_digests(self.path / "states", {_state_file_name(number): digest})
        return {**read_tensors(self.path / "states" / _state_file_name(number), device), **scalars}

    def matchups(self, matchups: Any, least: int = 0) -> np.ndarray:
        """Check matchups (K, S), indices of policies by seat from `least` on, and return them as int64.

        Raises:
            GpuEnvsError: The shape is wrong, or an index is out of range.
        """
        seats = self.game.seats
        array = to_host(matchups)
        if array.ndim != 2 or array.shape[1] != len(seats) or array.dtype.kind not in "iu":
            raise GpuEnvsError(
                f"{self.path}: matchups: expected integers (K, {len(seats)}), got {array.dtype} {array.shape}"
            )
        for column, seat in zip(array.T, seats, strict=True):
            size = len(self.populations[seat.role])
            if len(bad := column[(column < least) | (column >= size)]):
                raise GpuEnvsError(f"{self.path}: seat {seat.name}: expected one of {size} policies, got {bad[0]}")
        return array.astype(np.int64)

    # ---------------------------------------------------------------- steps

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
                with database.sqlite_errors(self.file), database.savepoint(self._db):
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
            with database.sqlite_errors(self.file), database.transaction(self._db):
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

    # ---------------------------------------------------------------- methods that add: in the step of a task

    def add_random_policy(self, role: str) -> PolicyRecord:
        """Append the policy of random actions to a population, under the name "random"."""
        policy = random_policy(self.game, role)
        return self.add_policy(role, policy, kind_of(policy), "random")

    def add_policy(
        self,
        role: str,
        policy: SupportsSave,
        kind: str = "policy",
        name: str | None = None,
        parent: int | None = None,
        iteration: int = 0,
        meta: Mapping[str, Any] | None = None,
    ) -> PolicyRecord:
        """Append a policy to a population.

        Args:
            role: Role of the population.
            policy: Policy, which is saved in its present state.
            kind: Name of its class for loading, see `league.policies.kinds.KINDS`.
            name: Unique name in the population; None: the role and a number.
            parent: Index of the policy that it was initialized from.
            iteration: Iteration in which it was created.
            meta: Further information, JSON.

        Raises:
            ConfigError: The role or parent is unknown, or the name is taken.
        """
        step = self._open_task("add_policy")
        if role not in self.populations:
            raise ConfigError(f"{self.path}: expected a role among {', '.join(self.populations)}, got {role!r}")
        population = self.populations[role]
        index = len(population)
        name = f"{role}-{index}" if name is None else name
        parent = None if parent is None else int(parent)
        if parent is not None and not 0 <= parent < index:
            raise ConfigError(f"{self.path}: parent of {name}: expected one of {index} policies, got {parent}")
        if any(entry.name == name for entry in population.entries):
            raise ConfigError(f"{self.path}: {role}: there is a policy {name!r} already; choose another name")
        ((number,),) = self._rows("SELECT count(*) FROM policies")
        id, folder = _policy_id(number, role), population.folder
        digests = _write_policy(folder, id, policy)
        if not digests:
            raise ConfigError(f"{self.path}: {name}: expected save(path) to write path with a suffix, got no file")
        step.folders.add(folder)
        entry = PolicyRecord(
            name, role, index, kind, parent, int(iteration), json.loads(to_json(dict(meta or {}))), id, digests
        )
        row = (number, id, role, index, name, kind, parent, int(iteration), to_json(entry.meta), to_json(digests))
        self._run(f"INSERT INTO policies VALUES ({', '.join('?' * len(row))})", row)
        population.entries.append(entry)
        return entry

    def add_results(self, matchups: Any, results: MatchupResults | PayoffCells) -> None:
        """Add results of episodes to the payoff cells of their matchups (K, S).

        Raises:
            GpuEnvsError: A result is not finite, a count is negative, or a matchup names an unknown policy; nothing is
                added.
        """
        self._open_task("add_results")
        players, names = self.matchups(matchups, least=0), ("total", "square", "score")
        count = checked_array(results.count, "count", players[:, 0].shape, np.int64)
        sums = np.stack(
            [checked_array(getattr(results, name), name, players.shape, np.float64) for name in names]
        )  # (3, K, S)
        if (count < 0).any():
            raise GpuEnvsError(f"{self.path}: expected counts of at least 0, got {count.min()}")
        if not (finite := np.isfinite(sums)).all():
            kind, k, seat = np.argwhere(~finite)[0]
            raise GpuEnvsError(
                f"{self.path}: {names[kind]} of matchup {players[k].tolist()}, seat {self.game.seats[seat].name}: "
                f"expected a finite number, got {sums[kind, k, seat]}; none of these results is stored"
            )
        played = count > 0
        keys, by_cell = map(matchup_key, players[played].tolist()), sums.transpose(1, 2, 0)[played]
        rows = [
            (key, seat, episodes, *earned)
            for key, episodes, seats in zip(keys, count[played].tolist(), by_cell.tolist(), strict=True)
            for seat, earned in enumerate(seats)
        ]
        self._run(
            "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count, "
            "total = total + excluded.total, square = square + excluded.square, score = score + excluded.score",
            *rows,
        )

    def add_matches(self, iteration: int, role: str, matchups: Any, counts: Any) -> None:
        """Add training matches: matchups (K, S), with -1 for the learner, and the episodes (K,) of each."""
        self._open_task("add_matches")
        players = self.matchups(matchups, least=-1)
        numbers = checked_array(counts, "counts", players[:, 0].shape, np.int64).tolist()
        self._run(
            "INSERT INTO matches VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            *(
                (int(iteration), role, matchup_key(matchup), number)
                for matchup, number in zip(players.tolist(), numbers, strict=True)
                if number
            ),
        )

    # ---------------------------------------------------------------- methods that replace: in any step

    def put(self, key: str, value: Any) -> None:
        """Store a JSON value under a key."""
        self._open_step("put")
        self._run("INSERT OR REPLACE INTO kv VALUES (?, ?)", (key, to_json(value)))

    def put_iteration(self, number: int, summary: Mapping[str, Any]) -> None:
        """Store the summary of an iteration, JSON."""
        self._open_step("put_iteration")
        self._run("INSERT OR REPLACE INTO iterations VALUES (?, ?)", (int(number), to_json(dict(summary))))

    def put_state(self, name: str, state: Mapping[str, Tensor | int | float | str]) -> None:
        """Store tensors and scalars, such as a learner's, under a name."""
        step = self._open_step("put_state")
        folder = self.path / "states"
        partial = folder / f"{PARTIAL_PREFIX}state.safetensors"
        write_tensors(partial, {key: value for key, value in state.items() if isinstance(value, Tensor)})
        scalars = to_json({key: value for key, value in state.items() if not isinstance(value, Tensor)})
        self.drop_state(name)
        self._run("INSERT INTO states (name, sha256, scalars) VALUES (?, ?, ?)", (name, sha256(partial), scalars))
        ((number,),) = self._rows("SELECT number FROM states WHERE name = ?", name)
        _publish(partial, folder / _state_file_name(number))
        step.folders.add(folder)

    def drop_state(self, name: str) -> None:
        """Remove a stored state, if it exists."""
        step = self._open_step("drop_state")
        for (number,) in self._rows("SELECT number FROM states WHERE name = ?", name):
            step.outdated.append(self.path / "states" / _state_file_name(number))
        self._run("DELETE FROM states WHERE name = ?", (name,))

    # ---------------------------------------------------------------- private

    def _check_writable(self) -> None:
        if self._lock is None:
            raise GpuEnvsError(f"{self.path}: expected a run open for writing, got one opened for reading, or closed")

    def _run(self, sql: str, *rows: tuple[Any, ...]) -> None:
        with database.sqlite_errors(self.file):
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
        """Remove files of runs that no record names; other files in the folders stay."""
        recorded = {file for pool in self.populations.values() for entry in pool.entries for file in entry.sha256}
        recorded |= {_state_file_name(number) for (number,) in self._read("states", ("number",))}
        for folder in (self.path / "policies", self.path / "states"):
            folder.mkdir(exist_ok=True)
            for file in folder.iterdir():
                # policies may add other names; safetensors writes to .tmpXXXXXX first
                of_run = PARTIAL_PREFIX in file.name or file.name[:5].isdigit() or file.name.startswith(".tmp")
                if of_run and file.name not in recorded and file.is_file():
                    file.unlink()

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with database.sqlite_errors(self.file):
            return self._db.execute(sql, values).fetchall()

    def _read(self, table: str, columns: Sequence[str], clause: str = "", *values: Any) -> list[tuple[Any, ...]]:
        """Read rows of a table and check their types."""
        rows = self._rows(f"SELECT {', '.join(columns)} FROM {table} {clause}", *values)
        check_rows(self.file, table, columns, rows)
        return rows

    def _json(self, table: str, field: str, text: str, hints: Any, required: Collection[str] = ()) -> Any:
        return read_json(text, f"{self.file}: {table}: {field}", hints, required)

    def _matchups_of(self, table: str, keys: Sequence[str], least: int) -> np.ndarray:
        """Return the matchups (K, S) with the given text forms."""
        seats = len(self.game.seats)
        try:
            matchups = [matchup_indices(key) for key in keys]
            if any(len(matchup) != seats for matchup in matchups):
                raise ValueError(f"expected indices of {seats} seats")
            return self.matchups(np.array(matchups, np.int64).reshape(-1, seats), least)
        except (ValueError, GpuEnvsError) as error:
            raise CheckpointError(f"{self.file}: {table}.matchup: {error} (damaged)") from None

    def _check_counts(self, table: str, counts: Sequence[int]) -> None:
        if counts and not 0 <= min(counts) <= max(counts) <= MAX_EPISODES:
            bad = min(counts) if min(counts) < 0 else max(counts)
            raise CheckpointError(f"{self.file}: {table}.count: expected 0 to {MAX_EPISODES}, got {bad} (damaged)")

    def _read_populations(self) -> None:
        records: dict[str, list[PolicyRecord]] = {role: [] for role in self.populations}
        columns = ("number", "name", "role", "position", "kind", "parent", "iteration", "meta", "id", "sha256")
        rows = self._read("policies", columns, "ORDER BY number")
        for position, (number, name, role, index, kind, parent, iteration, meta, id, digests) in enumerate(rows):
            context, entries = f"{self.file}: policies: {position}", records.get(role)
            if entries is None:
                raise CheckpointError(
                    f"{context}: role: expected one of {', '.join(records)}, got {role!r:.80} (damaged)"
                )
            files = read_json(digests, f"{context}: sha256", dict[str, str])
            for column, actual, right in (  # file names are checked too: `add_policy` has named them
                ("number", number, number == position),
                ("position", index, index == len(entries)),
                ("parent", parent, parent is None or 0 <= parent < index),
                ("iteration", iteration, iteration >= 0),
                ("id", id, id == _policy_id(position, role)),
                ("sha256", files, files and all(re.fullmatch(rf"{re.escape(id)}\.[^/\0]+", file) for file in files)),
            ):
                if not right:
                    raise CheckpointError(f"{context}: {column}: expected another value, got {actual!r:.80} (damaged)")
            meta = read_json(meta, f"{context}: meta", {"player": str})
            entries.append(PolicyRecord(name, role, index, kind, parent, iteration, meta, id, files))
        for role, entries in records.items():
            self.populations[role].replace(entries)


def _policy_id(number: int, role: str) -> str:
    """Return the name of a policy's files, without suffix."""
    return f"{number:05d}-{re.sub('[^A-Za-z0-9_-]+', '_', role)}"


def _state_file_name(number: int) -> str:
    """Return the name of the file with the tensors of a state."""
    return f"{number:08d}.safetensors"


def _publish(file: Path, final: Path) -> str:
    """Flush a file to disk, rename it to its final name, and return its sha256."""
    with file.open("rb") as written:
        os.fsync(written.fileno())
    digest = sha256(file)
    file.replace(final)
    return digest


def _write_policy(folder: Path, policy_id: str, policy: SupportsSave) -> dict[str, str]:
    """Write the files of a policy and return their sha256 by name; the dictionary is empty if it wrote no file."""
    policy.save(folder / f"{PARTIAL_PREFIX}{policy_id}")
    digests = {}
    for file in sorted(folder.glob(f"{PARTIAL_PREFIX}{policy_id}.*")):
        final = file.name.removeprefix(PARTIAL_PREFIX)
        digests[final] = _publish(file, folder / final)
    return digests
