"""What is watched: a run on disk, read again when its files have changed, never locked or written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.watch.rollouts import Stage

REST = 10
"""A run is read again after so many times as long as the last reading took: watching takes a tenth of a core."""


@dataclass(frozen=True)
class Snapshot:
    """A run as it was at one moment."""

    answers: dict[str, dict[str, Any]]
    """JSON by the name of the question, see `league.watch.api`; "run" without what only the moment of asking tells."""
    policies: dict[str, list[str]]
    """Names by role, the latest last."""
    stage: Stage
    """Where its policies play."""
    matchups: list[tuple[str, ...]]
    """Policies of each seat, those most worth seeing first."""


class Source(Protocol):
    """A run on disk."""

    path: Path
    """Its folder."""

    def files(self) -> Iterable[Path]:
        """Those that change when there is something new."""
        ...

    def read(self) -> Snapshot:
        """Reads what is there; GpuEnvsError or OSError where it cannot be."""
        ...

    def writing(self) -> bool:
        """Whether it seems to go on."""
        ...


def open_run(path: Path) -> Source:
    """Finds out what a folder holds: a training or a league.

    Raises:
        ConfigError: Neither is in it.
    """
    from league import database
    from league.watch.league_run import LeagueRun
    from league.watch.training_run import TrainingRun
    from trainers.runs import TRACES, kind_of

    kind = kind_of(path)
    if kind == "league":
        return LeagueRun(path)
    if kind == "training":
        return TrainingRun(path)
    there = "no folder" if not path.is_dir() else "neither"
    raise ConfigError(
        f"{path}: expected the folder of a run, with {database.DATABASE} (gpu-envs league train) or "
        f"{', '.join(TRACES)} (gpu-envs train), got {there}"
    )


class Latest:
    """The newest snapshot of a run. A new one is made in a thread of its own, while the one before is shown."""

    def __init__(self, source: Source) -> None:
        """Reads it for the first time; whatever is wrong is raised."""
        self.source = source
        self.problem: str | None = None
        """Why it could not be read again, in a line."""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "reading")
        self._job: Future[None] | None = None
        self._stamp = self._look()
        self._snapshot, self._version = source.read(), _newest(self._stamp)
        self._rested = time.monotonic()

    def get(self) -> tuple[Snapshot, int]:
        """The newest snapshot, and its version, which grows; sees whether there is something newer."""
        with self._lock:
            if self._job is not None and self._job.done():
                self._job = None
            if self._job is None and time.monotonic() >= self._rested and (stamp := self._look()) != self._stamp:
                self._stamp = stamp
                self._job = self._pool.submit(self._again, stamp)
            return self._snapshot, self._version

    def _again(self, stamp: Sequence[tuple[str, int, int]]) -> None:
        begin = time.monotonic()
        try:
            snapshot = self.source.read()
        except Exception as error:  # noqa: BLE001  # it is told on the page; what was read before stands
            known = isinstance(error, (GpuEnvsError, OSError))
            with self._lock:
                self.problem = str(error) if known else f"{type(error).__name__}: {error}"
                self._stamp, self._rested = [], time.monotonic() + 1.0
            return
        with self._lock:
            self._snapshot, self._version = snapshot, max(self._version + 1, _newest(stamp))
            self.problem = None
            self._rested = time.monotonic() + REST * (time.monotonic() - begin)

    def _look(self) -> list[tuple[str, int, int]]:
        """Name, time [ns] and size of every file."""
        found = []
        for file in self.source.files():
            try:
                stat = file.stat()
            except FileNotFoundError:
                continue
            found.append((str(file), stat.st_mtime_ns, stat.st_size))
        return found

    def close(self) -> None:
        """Waits for what is being read."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _newest(stamp: Sequence[tuple[str, int, int]]) -> int:
    """In milliseconds: a viewer that is started again goes on with versions that grow."""
    return max((changed for _, changed, _ in stamp), default=0) // 1_000_000
