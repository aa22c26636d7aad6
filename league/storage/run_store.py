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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

import gpu_envs
from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.utils.paths import check_folder
from league.game import Game
from league.policies.kinds import SupportsSave, kind_of
from league.policies.population import PolicyRecord
from league.policies.team import random_policy
from league.storage import database, policy_files
from league.storage.policy_files import policy_id, state_file_name
from league.storage.records import MatchupTotals, checked_array, matchup_key, to_json
from league.storage.step_store import StepStore
from trainers.base.seeding import SEEDS
from trainers.base.serialization import fsync_folder, sha256
from trainers.storage.folder_lock import FolderLock
from trainers.storage.run_folder import check_kind

__all__ = ["RunStore", "derive_named_seed"]


def derive_named_seed(seed: int, *words: str | int) -> int:
    """Derive the seed of one random stream of a run from the run's seed and the words that name the stream.

    Returns:
        Seed in [0, 2**63).
    """
    text = json.dumps([operator.index(seed), *(w if isinstance(w, str) else operator.index(w) for w in words)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % SEEDS


class RunStore(StepStore):
    """Store of one run; see the module's documentation. Values are read at any time and written inside `step`.

    A run opened with `write=False` is a snapshot: nothing is written, and a writing process is not disturbed. A store
    is used by one thread, and closed by `close` or `with`.
    """

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
            with database.SQLiteErrorTranslator(file), database.transaction(db):
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
            with database.SQLiteErrorTranslator(file):
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
        id, folder = policy_id(number, role), population.folder
        digests = policy_files.write_policy(folder, id, policy)
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

    def add_results(self, matchups: Any, results: MatchupTotals) -> None:
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
            which, k, seat = np.argwhere(~finite)[0]
            raise GpuEnvsError(
                f"{self.path}: {names[which]} of matchup {players[k].tolist()}, seat {self.game.seats[seat].name}: "
                f"expected a finite number, got {sums[which, k, seat]}; none of these results is stored"
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
        """Store tensors and scalars, such as those of a learner, under a name."""
        step = self._open_step("put_state")
        folder = self.path / "states"
        partial = policy_files.write_partial_state(folder, state)
        scalars = to_json({key: value for key, value in state.items() if not isinstance(value, Tensor)})
        self.drop_state(name)
        self._run("INSERT INTO states (name, sha256, scalars) VALUES (?, ?, ?)", (name, sha256(partial), scalars))
        ((number,),) = self._rows("SELECT number FROM states WHERE name = ?", name)
        policy_files.publish(partial, folder / state_file_name(number))
        step.folders.add(folder)

    def drop_state(self, name: str) -> None:
        """Remove a stored state, if it exists."""
        step = self._open_step("drop_state")
        for (number,) in self._rows("SELECT number FROM states WHERE name = ?", name):
            step.outdated.append(self.path / "states" / state_file_name(number))
        self._run("DELETE FROM states WHERE name = ?", (name,))
