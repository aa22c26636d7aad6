"""A league's run on disk: one folder that a kill at any moment leaves whole.

::

    league.db               SQLite: game, configuration, policies and their lineage, payoff cells, tasks, matches,
                            iterations, anything by key
    policies/ID.*           each policy, as its kind writes it
    states/NUMBER.*         tensors of learners in the middle of their work
    run.lock                held by the process that writes

What belongs together is written in one step, which is there afterwards or is not::

    if not store.done("3/payoffs"):
        results = play_matchups(..., seed=derived(seed, "3/payoffs"))
        with store.step("3/payoffs") as result:
            store.add_results(matchups, results)
            result["episodes"] = 1000

A step with the name of a task happens once in a run: what adds (policies, results, matches, drawn matchups) needs one,
so that nothing is counted twice by a run that goes on after a kill. Draws are not stored but made again, from
`derived` seeds. Files are on disk under their names before the step is committed; those that no record names were
written by a step that never was, and go when the run is opened for writing again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import operator
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

import gpu_envs
from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.paths import check_folder
from league import database
from league.game import Game
from league.population import Entry
from league.records import Counted, Saves, array, key_of, publish, state_file, to_json
from league.store_reader import StoreReader, policy_id
from trainers.files import fsync_folder, sha256, write_tensors
from trainers.folder_lock import FolderLock
from trainers.runs import check_kind
from trainers.settings import SEEDS

WRITING = ".writing-"
"""Before the name of a file that is not whole yet."""


def derived(seed: int, *words: str | int) -> int:
    """The seed of one of the streams that a run needs: the same words give the same, any other words another.

    A resumed run makes the same draws by it, with nothing of its random streams stored.

    Returns:
        In [0, 2**63).
    """
    text = json.dumps([operator.index(seed), *(w if isinstance(w, str) else operator.index(w) for w in words)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % SEEDS


@dataclass
class _Step:
    """What an open step still has to do."""

    task: str | None
    folders: set[Path] = field(default_factory=set)
    """Where it put files."""
    outdated: list[Path] = field(default_factory=list)
    """Files that no record names once it is committed."""


class Store(StoreReader):
    """One run, see the top of this file. Its rooms are read at any time; they are written inside of `step`.

    A run opened with `write=False` is read as it was at that moment, with nothing written and nobody disturbed.
    It is used by one thread, and closed at the end or by `with`.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, lock: FolderLock | None) -> None:
        """Use `create` or `open`."""
        super().__init__(path, db)
        self._lock = lock
        self._step: _Step | None = None
        self._steps: list[_Step] | None = None  # that are written together
        if lock is not None:
            self._remove_orphans()

    # ---------------------------------------------------------------- opening and closing

    @classmethod
    def create(cls, path: Path | str, game: Game, config: Mapping[str, Any]) -> Store:
        """Begins a run, opened for writing.

        Args:
            path: A folder without a run; made where it is not there.
            game: What is played.
            config: The run's configuration, JSON.

        Raises:
            ConfigError: There is a run already, of any kind, or the folder cannot be made.
            GpuEnvsError: Another process is writing there.
        """
        path = Path(path)
        check_kind(path, "league")
        check_folder(path)
        path.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo:
            lock = undo.enter_context(FolderLock(path, database.READ))
            file = path / database.DATABASE
            if database.begun(path, alone=True):
                raise ConfigError(f"{path}: there is a run already; go on with Store.open, or choose another folder")
            for folder in (path / "policies", path / "states"):
                folder.mkdir(exist_ok=True)
                if stray := next(folder.iterdir(), None):
                    raise ConfigError(
                        f"{stray}: left by another run, whose {database.DATABASE} is gone; choose another folder"
                    )
            db = database.connect(file)
            undo.callback(db.close)
            meta = {
                "format": database.FORMAT,
                "version": gpu_envs.__version__,
                "game": to_json(game.to_json()),
                "config": to_json(dict(config)),
            }
            with database.Told(file), database.transaction(db):
                for name, columns in database.TABLES.items():
                    db.execute(f"CREATE TABLE {name} ({columns})")
                db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            fsync_folder(path)
            store = cls(path, db, lock)
            undo.pop_all()
        return store

    @classmethod
    def open(cls, path: Path | str, write: bool = True) -> Store:
        """Opens a run.

        Args:
            path: Its folder.
            write: To go on with it; else to read it as it is now, which works beside a process that writes.

        Raises:
            ConfigError: No run there.
            CheckpointError: Damaged, or of a format that cannot be read; nothing was touched.
            GpuEnvsError: Another process is writing it.
        """
        path = Path(path)
        file = path / database.DATABASE
        if not file.is_file():
            raise ConfigError(f"{path}: expected the folder of a league's run, got no {database.DATABASE} in it")
        with contextlib.ExitStack() as undo:
            lock = undo.enter_context(FolderLock(path, database.READ)) if write else None
            with database.Told(file):
                db = database.snapshot(path, alone=write)
            undo.callback(db.close)
            database.check(db, file)
            db.execute("PRAGMA query_only = 1")
            store = cls(path, db, None)
            if write:  # what is damaged or too new has been found in the copy by now, and is left as it is
                store.close()
                db = database.connect(file)
                undo.callback(db.close)
                database.check(db, file)
                store = cls(path, db, lock)
            undo.pop_all()
        return store

    @staticmethod
    def begun(path: Path | str) -> bool:
        """Whether there is a run to open in a folder; none if a process was killed before it had made one."""
        return database.begun(Path(path))

    def close(self) -> None:
        """Lets go of the run; another process may write it then."""
        self._db.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---------------------------------------------------------------- steps

    @contextlib.contextmanager
    def step(self, task: str | None = None) -> Iterator[dict[str, Any]]:
        """All that is written inside is there afterwards, or nothing is, whatever happens.

        Args:
            task: What the step does; it is done then, and refused ever after. None: a step that may happen again,
                which adds nothing and replaces only.

        Yields:
            A dict to fill with the task's result, JSON.

        Raises:
            GpuEnvsError: The task is done already, the run is opened for reading, or a step is open.
        """
        if self._lock is None:
            raise GpuEnvsError(f"{self.path}: opened for reading (or closed); nothing can be written")
        if self._step is not None:
            raise GpuEnvsError(f"{self.path}: a step is open already; end it before the next")
        if task is not None and self.done(task):
            raise GpuEnvsError(f"{self.path}: task {task!r} is done already; ask store.done(task) before doing it")
        step, result = _Step(task), {}
        self._step = step
        try:
            with contextlib.nullcontext() if self._steps is not None else self.together():
                with self._told, database.part(self._db):
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
        """Steps inside wait for the disk once, at the end; a kill before that leaves none of them.

        What fails inside takes back its own step alone.

        Raises:
            GpuEnvsError: Opened for reading, closed, or steps are put together already.
        """
        if self._lock is None or self._steps is not None:
            raise GpuEnvsError(f"{self.path}: opened for reading (or closed), or steps are put together already")
        self._steps, failed = [], None
        try:
            with self._told, database.transaction(self._db):
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

    # ---------------------------------------------------------------- what adds: in the step of a task

    def add_policy(
        self,
        role: str,
        policy: Saves,
        kind: str = "policy",
        name: str | None = None,
        parent: int | None = None,
        iteration: int = 0,
        meta: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Puts a policy at the end of a population.

        Args:
            role: Of the population.
            policy: It is saved as it is now.
            kind: How it is read again, see `league.population.KINDS`.
            name: Its own in the population; None: the role and a number.
            parent: Index of the policy that it started from.
            iteration: In which it was made.
            meta: Whatever else is to be known of it, JSON.

        Raises:
            ConfigError: No such role or parent, or a name that is taken.
        """
        step = self._adds("add_policy")
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
        id = policy_id(number, role)
        folder = population.folder
        policy.save(folder / f"{WRITING}{id}")
        digests = {}
        for file in sorted(folder.glob(f"{WRITING}{id}.*")):
            final = file.name.removeprefix(WRITING)
            digests[final] = publish(file, folder / final)
        if not digests:
            raise ConfigError(f"{self.path}: {name}: expected save(path) to write path with a suffix, got no file")
        step.folders.add(folder)
        entry = Entry(
            name, role, index, kind, parent, int(iteration), json.loads(to_json(dict(meta or {}))), id, digests
        )
        row = (number, id, role, index, name, kind, parent, int(iteration), to_json(entry.meta), to_json(digests))
        self._run(f"INSERT INTO policies VALUES ({', '.join('?' * len(row))})", row)
        population.entries.append(entry)
        return entry

    def add_results(self, matchups: Any, results: Counted) -> None:
        """Adds what episodes gave to the cells of their matchups, (K, S).

        Raises:
            GpuEnvsError: A result that is not finite, a count below 0, or a matchup of nobody; nothing is added.
        """
        self._adds("add_results")
        players, names = self.matchups(matchups, least=0), ("total", "square", "score")
        count = array(results.count, "count", players[:, 0].shape, np.int64)
        sums = np.stack([array(getattr(results, name), name, players.shape, np.float64) for name in names])  # (3, K, S)
        if (count < 0).any():
            raise GpuEnvsError(f"{self.path}: expected counts of at least 0, got {count.min()}")
        if not (finite := np.isfinite(sums)).all():
            which, k, seat = np.argwhere(~finite)[0]
            raise GpuEnvsError(
                f"{self.path}: {names[which]} of matchup {players[k].tolist()}, seat {self.game.seats[seat].name}: "
                f"expected a finite number, got {sums[which, k, seat]}; nothing of these results was kept"
            )
        played = count > 0
        keys, by_cell = map(key_of, players[played].tolist()), sums.transpose(1, 2, 0)[played]
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
        """Counts matches (K, S), -1 for who learns, (K,) of each, under the name of whoever asked for them."""
        self._adds("add_matches")
        players = self.matchups(matchups, least=-1)
        met = zip(players.tolist(), array(counts, "counts", players[:, 0].shape, np.int64).tolist(), strict=True)
        self._run(
            "INSERT INTO matches VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            *((int(iteration), role, key_of(who), times) for who, times in met if times),
        )

    # ---------------------------------------------------------------- what replaces: in any step

    def put(self, key: str, value: Any) -> None:
        """Keeps a JSON value under a key."""
        self._writes("put")
        self._run("INSERT OR REPLACE INTO kv VALUES (?, ?)", (key, to_json(value)))

    def put_iteration(self, number: int, summary: Mapping[str, Any]) -> None:
        """Keeps what there is to say of an iteration, JSON."""
        self._writes("put_iteration")
        self._run("INSERT OR REPLACE INTO iterations VALUES (?, ?)", (int(number), to_json(dict(summary))))

    def put_state(self, name: str, state: Mapping[str, Tensor | int | float | str]) -> None:
        """Keeps tensors and scalars, such as those of a learner, in place of what had the name before."""
        step = self._writes("put_state")
        folder = self.path / "states"
        temporary = folder / f"{WRITING}state.safetensors"
        write_tensors(temporary, {key: value for key, value in state.items() if isinstance(value, Tensor)})
        scalars = to_json({key: value for key, value in state.items() if not isinstance(value, Tensor)})
        self.drop_state(name)
        self._run("INSERT INTO states (name, sha256, scalars) VALUES (?, ?, ?)", (name, sha256(temporary), scalars))
        ((number,),) = self._rows("SELECT number FROM states WHERE name = ?", name)
        publish(temporary, folder / state_file(number))
        step.folders.add(folder)

    def drop_state(self, name: str) -> None:
        """Forgets a state that is needed no more, if there is one."""
        step = self._writes("drop_state")
        for (number,) in self._rows("SELECT number FROM states WHERE name = ?", name):
            step.outdated.append(self.path / "states" / state_file(number))
        self._run("DELETE FROM states WHERE name = ?", (name,))

    # ---------------------------------------------------------------- inside

    def _run(self, sql: str, *rows: tuple[Any, ...]) -> None:
        with self._told:
            self._db.executemany(sql, rows)

    def _writes(self, what: str) -> _Step:
        if self._step is None:
            raise GpuEnvsError(f"{self.path}: {what}: expected to be inside of store.step(), got no step")
        return self._step

    def _adds(self, what: str) -> _Step:
        step = self._writes(what)
        if step.task is None:
            raise GpuEnvsError(f"{self.path}: {what}: adds, which a task does once; name it: store.step('task')")
        return step

    def _remove_orphans(self) -> None:
        """Removes files that no record names."""
        policies = {file for pool in self.populations.values() for entry in pool.entries for file in entry.sha256}
        states = {state_file(number) for (number,) in self._read("states", ("number",))}
        for folder, named in ((self.path / "policies", policies), (self.path / "states", states)):
            folder.mkdir(exist_ok=True)
            for file in folder.iterdir():
                # a policy may write with names of its own; safetensors writes to .tmpXXXXXX first
                ours = WRITING in file.name or file.name[:5].isdigit() or file.name.startswith(".tmp")
                if ours and file.name not in named and file.is_file():
                    file.unlink()
