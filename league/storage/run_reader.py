"""Reads the database of a league's run; every value is checked, as a file may be damaged or come from someone else."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpu_envs.errors import CheckpointError, GpuEnvsError
from league import database
from league.game import Game
from league.population import Entry, Population
from league.records import CONFIG, MAX_EPISODES, Cells, Met, check_rows, host, players_of, read_json, state_file
from trainers.files import check_digests, read_tensors


class StoreReader:
    """The part of `league.store.Store` that reads. CheckpointError names the file, the table and the field."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        """Read what is played, the configuration and the populations.

        Args:
            path: Folder of the run.
            db: Its database, which `database.check` has accepted.

        Raises:
            CheckpointError: A value is damaged.
        """
        self.path, self._db = path, db
        self.file = path / database.DATABASE
        self._told = database.Told(self.file)
        meta = dict(self._read("meta", ("key", "value")))
        if lost := {"game", "config", "version"} - meta.keys():
            raise CheckpointError(
                f"{self.file}: expected a run's game, config and version, got no {min(lost)} (damaged)"
            )
        self.game = Game.from_json(self._json("meta", "game", meta["game"], Any), f"{self.file}: meta: game")
        self.config: dict[str, Any] = self._json("meta", "config", meta["config"], CONFIG)
        self.version = meta["version"]
        self.populations = {role: Population(role, path / "policies") for role in self.game.roles}
        self._read_populations()

    # ---------------------------------------------------------------- tasks

    def done(self, task: str) -> bool:
        """Whether a task's step was committed."""
        return bool(self._rows("SELECT 1 FROM tasks WHERE name = ?", task))

    def result(self, task: str, hints: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Read what a task that is done left.

        Args:
            task: Its name.
            hints: Fields that it has to have, and their types.

        Raises:
            GpuEnvsError: It is not done.
            CheckpointError: A field is missing or has another type.
        """
        rows = self._read("tasks", ("result",), "WHERE name = ?", task)
        if not rows:
            raise GpuEnvsError(f"{self.path}: task {task!r} is not done, it has no result")
        return self._json("tasks", f"result of {task!r:.80}", rows[0][0], hints or {}, hints or ())

    def tasks(self) -> list[str]:
        """All tasks that are done, in the order they were."""
        return [name for (name,) in self._read("tasks", ("name",), "ORDER BY number")]

    # ---------------------------------------------------------------- tables

    def cells(self) -> Cells:
        """Everything that `add_results` was given, added up; it can be given to a payoff table as it is.

        Raises:
            CheckpointError: A value is damaged.
        """
        names = ("matchup", "seat", "count", "total", "square", "score")
        rows, seats = self._read("cells", names, "ORDER BY rowid"), len(self.game.seats)
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        if columns[1] != tuple(range(seats)) * (len(rows) // seats):  # the rows of a matchup follow each other
            raise CheckpointError(f"{self.file}: cells.seat: expected every seat of a matchup in turn (damaged)")
        keys, counts = (np.array(column, object).reshape(-1, seats) for column in (columns[0], columns[2]))
        if (keys != keys[:, :1]).any() or (counts != counts[:, :1]).any():
            raise CheckpointError(
                f"{self.file}: cells: expected the same matchup and count for all its seats (damaged)"
            )
        matchups = self._players("cells", columns[0][::seats], 0)
        self._counted("cells", columns[2])
        total, square, score = (np.array(column, np.float64).reshape(-1, seats) for column in columns[3:])
        for name, values in (("total", total), ("square", square), ("score", score)):
            if not np.isfinite(values).all():
                raise CheckpointError(f"{self.file}: cells.{name}: expected finite numbers (damaged)")
        return Cells(matchups, np.array(counts[:, 0], np.int64), total, square, score)

    def matches(self) -> list[Met]:
        """Matches by iteration, by what asked for them and by matchup, in the order they first came."""
        rows = self._read("matches", ("iteration", "role", "matchup", "count"), "ORDER BY rowid")
        players = self._players("matches", [row[2] for row in rows], -1).tolist()
        self._counted("matches", [row[3] for row in rows])
        return [Met(row[0], row[1], tuple(who), row[3]) for row, who in zip(rows, players, strict=True)]

    def iterations(
        self, hints: Mapping[str, Any] | None = None, required: Collection[str] = ()
    ) -> dict[int, dict[str, Any]]:
        """Summaries by iteration; CheckpointError where a field has another type than in `hints`, or is missing."""
        rows = self._read("iterations", ("number", "summary"), "ORDER BY number")
        if rows and not 0 <= rows[0][0] == rows[-1][0] - len(rows) + 1:
            raise CheckpointError(f"{self.file}: iterations.number: expected all from the first to the last (damaged)")
        return {n: self._json("iterations", f"summary of {n}", text, hints or {}, required) for n, text in rows}

    def get(self, key: str, default: Any = None, hint: Any = Any) -> Any:
        """What `put` kept under a key; CheckpointError where it is not of the type `hint`."""
        rows = self._read("kv", ("value",), "WHERE key = ?", key)
        return self._json("kv", key, rows[0][0], hint) if rows else default

    def has_state(self, name: str) -> bool:
        """Whether `put_state` kept something."""
        return bool(self._rows("SELECT 1 FROM states WHERE name = ?", name))

    def state(self, name: str, device: torch.device | str = "cpu") -> dict[str, Any] | None:
        """What `put_state` kept, None if there is nothing; CheckpointError where its file is missing or damaged."""
        rows = self._read("states", ("number", "sha256", "scalars"), "WHERE name = ?", name)
        if not rows:
            return None
        number, digest, text = rows[0]
        scalars = self._json("states", f"scalars of {name!r:.80}", text, dict[str, int | float | str | bool])
        check_digests(self.path / "states", {state_file(number): digest})
        return {**read_tensors(self.path / "states" / state_file(number), device), **scalars}

    def matchups(self, matchups: Any, least: int = 0) -> np.ndarray:
        """Check matchups (K, S), a policy's index by seat, `least` at least; return them as int64.

        Raises:
            GpuEnvsError: They have another shape, or name a policy that is not there.
        """
        seats = self.game.seats
        array = host(matchups)
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
        with self._told:
            return self._db.execute(sql, values).fetchall()

    def _read(self, table: str, columns: Sequence[str], which: str = "", *values: Any) -> list[tuple[Any, ...]]:
        """Rows of a table, whose types are checked."""
        rows = self._rows(f"SELECT {', '.join(columns)} FROM {table} {which}", *values)
        check_rows(self.file, table, columns, rows)
        return rows

    def _json(self, table: str, field: str, text: str, hints: Any, required: Collection[str] = ()) -> Any:
        return read_json(text, f"{self.file}: {table}: {field}", hints, required)

    def _players(self, table: str, keys: Sequence[str], least: int) -> np.ndarray:
        """Matchups (K, S) by their names."""
        seats = len(self.game.seats)
        try:
            found = [players_of(key) for key in keys]
            if any(len(each) != seats for each in found):
                raise ValueError(f"expected indices of {seats} seats")
            return self.matchups(np.array(found, np.int64).reshape(-1, seats), least)
        except (ValueError, GpuEnvsError) as error:
            raise CheckpointError(f"{self.file}: {table}.matchup: {error} (damaged)") from None

    def _counted(self, table: str, counts: Sequence[int]) -> None:
        if counts and not 0 <= min(counts) <= max(counts) <= MAX_EPISODES:
            bad = min(counts) if min(counts) < 0 else max(counts)
            raise CheckpointError(f"{self.file}: {table}.count: expected 0 to {MAX_EPISODES}, got {bad} (damaged)")

    def _read_populations(self) -> None:
        found: dict[str, list[Entry]] = {role: [] for role in self.populations}
        columns = ("number", "name", "role", "position", "kind", "parent", "iteration", "meta", "id", "sha256")
        rows = self._read("policies", columns, "ORDER BY number")
        for place, (number, name, role, index, kind, parent, iteration, meta, id, digests) in enumerate(rows):
            where, entries = f"{self.file}: policies: {place}", found.get(role)
            if entries is None:
                raise CheckpointError(f"{where}: role: expected one of {', '.join(found)}, got {role!r:.80} (damaged)")
            files = read_json(digests, f"{where}: sha256", dict[str, str])
            for column, got, right in (  # the names of files, too, are those that `add_policy` gives
                ("number", number, number == place),
                ("position", index, index == len(entries)),
                ("parent", parent, parent is None or 0 <= parent < index),
                ("iteration", iteration, iteration >= 0),
                ("id", id, id == policy_id(place, role)),
                ("sha256", files, files and all(re.fullmatch(rf"{id}\.[^/\0]+", file) for file in files)),
            ):
                if not right:
                    raise CheckpointError(f"{where}: {column}: expected another value, got {got!r:.80} (damaged)")
            meta = read_json(meta, f"{where}: meta", {"player": str})
            entries.append(Entry(name, role, index, kind, parent, iteration, meta, id, files))
        for role, entries in found.items():
            self.populations[role].replace(entries)


def policy_id(number: int, role: str) -> str:
    """Name of the files of a policy."""
    return f"{number:05d}-{re.sub('[^A-Za-z0-9_-]+', '_', role)}"
