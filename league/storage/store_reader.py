"""Reading of a run's database. Every value is checked, because a file may be damaged or come from another author."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpu_envs.errors import CheckpointError, GpuEnvsError
from gpu_envs.utils.summaries import Summarized, Summary
from league.game import Game
from league.policies.population import PolicyRecord, Population
from league.storage import database
from league.storage.policy_files import policy_id, state_file_name
from league.storage.records import (
    CONFIG_FIELDS,
    MAX_EPISODES,
    MatchCounts,
    PayoffCells,
    check_rows,
    matchup_indices,
    read_json,
    to_host,
)
from trainers.base.serialization import check_digests, read_tensors

__all__ = ["StoreReader"]


class StoreReader(Summarized):
    """The part of `RunStore` that reads; a CheckpointError names the file, the table and the field."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        """Read the game, the configuration and the populations.

        Args:
            path: Folder of the run.
            db: Its database, which `database.check_database` has accepted.

        Raises:
            CheckpointError: A value is damaged.
        """
        self.path: Path = path
        self._db = db
        self.file: Path = path / database.DATABASE
        self._sqlite_errors = database.SQLiteErrorTranslator(self.file)
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
        return [MatchCounts(row[0], row[1], tuple(who), row[3]) for row, who in zip(rows, players, strict=True)]

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
        check_digests(self.path / "states", {state_file_name(number): digest})
        return {**read_tensors(self.path / "states" / state_file_name(number), device), **scalars}

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

    # ---------------------------------------------------------------- inside

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._sqlite_errors:
            return self._db.execute(sql, values).fetchall()

    def _read(self, table: str, columns: Sequence[str], which: str = "", *values: Any) -> list[tuple[Any, ...]]:
        """Read rows of a table and check their types."""
        rows = self._rows(f"SELECT {', '.join(columns)} FROM {table} {which}", *values)
        check_rows(self.file, table, columns, rows)
        return rows

    def _json(self, table: str, field: str, text: str, hints: Any, required: Collection[str] = ()) -> Any:
        return read_json(text, f"{self.file}: {table}: {field}", hints, required)

    def _matchups_of(self, table: str, keys: Sequence[str], least: int) -> np.ndarray:
        """Return the matchups (K, S) with the given text forms."""
        seats = len(self.game.seats)
        try:
            found = [matchup_indices(key) for key in keys]
            if any(len(each) != seats for each in found):
                raise ValueError(f"expected indices of {seats} seats")
            return self.matchups(np.array(found, np.int64).reshape(-1, seats), least)
        except (ValueError, GpuEnvsError) as error:
            raise CheckpointError(f"{self.file}: {table}.matchup: {error} (damaged)") from None

    def _check_counts(self, table: str, counts: Sequence[int]) -> None:
        if counts and not 0 <= min(counts) <= max(counts) <= MAX_EPISODES:
            bad = min(counts) if min(counts) < 0 else max(counts)
            raise CheckpointError(f"{self.file}: {table}.count: expected 0 to {MAX_EPISODES}, got {bad} (damaged)")

    def _read_populations(self) -> None:
        found: dict[str, list[PolicyRecord]] = {role: [] for role in self.populations}
        columns = ("number", "name", "role", "position", "kind", "parent", "iteration", "meta", "id", "sha256")
        rows = self._read("policies", columns, "ORDER BY number")
        for place, (number, name, role, index, kind, parent, iteration, meta, id, digests) in enumerate(rows):
            where, entries = f"{self.file}: policies: {place}", found.get(role)
            if entries is None:
                raise CheckpointError(f"{where}: role: expected one of {', '.join(found)}, got {role!r:.80} (damaged)")
            files = read_json(digests, f"{where}: sha256", dict[str, str])
            for column, got, right in (  # file names are checked too: they are those of `add_policy`
                ("number", number, number == place),
                ("position", index, index == len(entries)),
                ("parent", parent, parent is None or 0 <= parent < index),
                ("iteration", iteration, iteration >= 0),
                ("id", id, id == policy_id(place, role)),
                ("sha256", files, files and all(re.fullmatch(rf"{re.escape(id)}\.[^/\0]+", file) for file in files)),
            ):
                if not right:
                    raise CheckpointError(f"{where}: {column}: expected another value, got {got!r:.80} (damaged)")
            meta = read_json(meta, f"{where}: meta", {"player": str})
            entries.append(PolicyRecord(name, role, index, kind, parent, iteration, meta, id, files))
        for role, entries in found.items():
            self.populations[role].replace(entries)
