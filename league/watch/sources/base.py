"""Source of the viewer: a run or an experiment on disk, read again when its files change, never locked or written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpu_envs.errors import GpuEnvsError
from league.watch.rollouts import RolloutEnvironment

MIXTURE = "meta-strategy"
"""Name of the policy that plays the final meta-strategy of a league: it samples a policy for every episode."""

REREAD_FACTOR = 10
"""Pause between two readings as a multiple of the duration of a reading, so that reading uses a tenth of a core."""


@dataclass(frozen=True)
class Snapshot:
    """State of a run, or of an experiment, at one moment."""

    answers: dict[str, dict[str, Any]]
    """Answers by name, JSON, see `league.watch.api`; "run" lacks the fields of the present state."""
    policies: dict[str, list[str]]
    """Names of policies by role, the latest last; an experiment has none."""


@dataclass(frozen=True)
class ExperimentSnapshot(Snapshot):
    """State of an experiment at one moment."""

    runs: dict[str, Path]
    """Folders of its runs by name, such as "runs/tag/ppo/seed-0"."""


@dataclass(frozen=True)
class RunSnapshot(Snapshot):
    """State of a training or a league at one moment."""

    stage: RolloutEnvironment
    """Environment in which the policies play."""
    matchups: list[tuple[str, ...]]
    """Policies of each seat for rollouts, the most interesting first."""
    latest: dict[str, str]
    """Name of the policy by role that is the present result of the run; empty before there are policies."""
    mixture: bool = False
    """Whether every role also has the policy `MIXTURE`."""

    def has(self, role: str, name: str) -> bool:
        """Return whether a role has a policy of this name."""
        return name in self.policies[role] or (self.mixture and name == MIXTURE)


class RunSource(Protocol):
    """Run, or experiment, on disk."""

    path: Path
    """Its folder."""

    def files(self) -> Iterable[Path]:
        """Return the files that change with the run."""
        ...

    def read(self) -> Snapshot:
        """Read the run; raise GpuEnvsError or OSError if it cannot be read."""
        ...

    def writing(self) -> bool:
        """Return whether a process seems to write the run."""
        ...

    def progress(self) -> tuple[int, int, bool]:
        """Return completed iterations, all iterations, and whether the run may end before the last one by its rules.

        The iterations of an experiment are its runs.
        """
        ...


class LatestSnapshot:
    """Latest snapshot of a run; a thread reads the next one while the last one is shown."""

    def __init__(self, source: RunSource) -> None:
        """Read the run for the first time; errors are raised."""
        self.source = source
        self.problem: str | None = None
        """Reason why the run could not be read again, in one line."""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "reading")
        self._job: Future[None] | None = None
        self._stamp = stat_files(source.files())
        self._snapshot, self._version = source.read(), _newest(self._stamp)
        self._rested = time.monotonic()
        self._history = {role: set(names) for role, names in self._snapshot.policies.items()}

    def get(self) -> tuple[Snapshot, int]:
        """Return the latest snapshot and its version, which increases; start a new reading if files have changed."""
        with self._lock:
            if self._job is not None and self._job.done():
                self._job = None
            if (
                self._job is None
                and time.monotonic() >= self._rested
                and (stamp := stat_files(self.source.files())) != self._stamp
            ):
                self._stamp = stamp
                self._job = self._pool.submit(self._reread, stamp)
            return self._snapshot, self._version

    def was_seen(self, role: str, name: str) -> bool:
        """Return whether a snapshot had this policy, which the run may have removed since."""
        with self._lock:
            return name in self._history[role]

    def _reread(self, stamp: Sequence[tuple[str, int, int]]) -> None:
        start = time.monotonic()
        try:
            snapshot = self.source.read()
        except Exception as error:  # noqa: BLE001  # shown on the page, with the last snapshot
            is_expected = isinstance(error, (GpuEnvsError, OSError))
            with self._lock:
                self.problem = str(error) if is_expected else f"{type(error).__name__}: {error}"
                self._stamp, self._rested = [], time.monotonic() + 1.0
            return
        with self._lock:
            self._snapshot, self._version = snapshot, max(self._version + 1, _newest(stamp))
            self.problem = None
            for role, names in snapshot.policies.items():
                self._history.setdefault(role, set()).update(names)
            self._rested = time.monotonic() + REREAD_FACTOR * (time.monotonic() - start)

    def close(self) -> None:
        """Wait for the current reading and stop."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def stat_files(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Return name, time [ns] and size of every file that exists."""
    stats = []
    for file in files:
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue
        stats.append((str(file), stat.st_mtime_ns, stat.st_size))
    return stats


def _newest(stamp: Sequence[tuple[str, int, int]]) -> int:
    """Return the time of the last change [ms], so that versions also increase across restarts of the viewer."""
    return max((changed for _, changed, _ in stamp), default=0) // 1_000_000
