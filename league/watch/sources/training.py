"""A run of `gpu-envs train` to watch: metrics.csv, and the policies of its checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError
from league.game import Seat
from league.watch.source import Snapshot
from trainers import checkpoint
from trainers.config import TrainConfig, make_core, members_by_policy
from trainers.files import read_json
from trainers.logs import read_rows
from trainers.policy import Plays

ROWS = 2000
"""Points of a curve; of more, neighbours are averaged."""
QUIET = 60.0
"""Seconds without a word after which a training counts as ended, if three of its iterations are no longer than that."""
RANDOM = "random"
"""Who plays beside the policies of checkpoints."""


@dataclass(frozen=True)
class TrainingStage:
    """The environment of a training, and its checkpoints as players."""

    config: TrainConfig
    """Of the run."""
    folder: Path
    """Of the run, with its checkpoints."""
    seats: tuple[Seat, ...]
    """Sides that a policy each plays."""

    def core(self, num_envs: int) -> Core:
        """See `league.watch.rollouts.Stage`."""
        return make_core(self.config, num_envs, self.config.seed, autoreset="disabled")

    def policy(self, place: int, name: str) -> Plays | None:
        """Loads the policy of a seat in a checkpoint."""
        return None if name == RANDOM else checkpoint.load_policy(self.folder / name, self.seats[place].role)


class TrainingRun:
    """See `league.watch.source.Source`."""

    def __init__(self, path: Path) -> None:
        """Reads the configuration of the run in a folder.

        Raises:
            CheckpointError: There is none yet, it is damaged, or its environment is in a module that is not imported.
        """
        self.path, self.folder = path, path / "checkpoints"
        file, last = path / checkpoint.CONFIG, checkpoint.every(self.folder)[-1:]
        for saved in last or ([] if file.exists() else [checkpoint.find(path)]):
            manifest = checkpoint.read_manifest(saved)
            checkpoint.check_run(saved, manifest)
            self.recorded: dict[str, Any] = manifest.config
        if file.exists():
            self.recorded = read_json(file)
        config = dataclasses.replace(TrainConfig.from_json(self.recorded, str(file)), device="cpu")
        core = make_core(config, 1, config.seed)
        sides = members_by_policy(config, core)
        self.stage = TrainingStage(
            config, self.folder, tuple(Seat(name, name, tuple(members)) for name, members in sides.items())
        )
        self._iteration, self._lasted = 0, 0.0  # the last one, and how many seconds it took
        self.agents = list(core.possible_agents)
        self.groups = {group: [self.agents[row] for row in rows] for group, rows in core.groups.items()}

    def files(self) -> Iterator[Path]:
        """Metrics and checkpoints."""
        yield self.path / "config.json"
        yield self.path / "metrics.csv"
        for folder in checkpoint.every(self.folder):
            yield folder / "manifest.json"

    def writing(self) -> bool:
        """It has steps left to do, and told something a short while ago."""
        if self._iteration >= self.stage.config.iterations:
            return False
        try:
            changed = max(file.stat().st_mtime for file in self.files() if file.exists())
        except FileNotFoundError:  # a checkpoint has just made room
            return True
        return time.time() - changed < max(QUIET, 3.0 * self._lasted)

    def read(self) -> Snapshot:
        """Reads metrics, the names of checkpoints, and settings again: a resumed run may have more steps to do."""
        if (file := self.path / "config.json").exists() and (recorded := read_json(file)) != self.recorded:
            config = dataclasses.replace(TrainConfig.from_json(recorded, str(file)), device="cpu")
            self.recorded, self.stage = recorded, dataclasses.replace(self.stage, config=config)
        roles = [seat.role for seat in self.stage.seats]
        policies = {role: [RANDOM] for role in roles}
        for folder in checkpoint.every(self.folder):
            with contextlib.suppress(CheckpointError):  # it has just made room for a newer one
                for name in checkpoint.read_manifest(folder).policies:
                    policies.get(name, []).append(folder.name)
        config = self.stage.config
        run = {
            "kind": "training",
            "env_id": config.env_id,
            "env": config.env,
            "algorithm": config.algorithm,
            "config": self.recorded,
            "roles": roles,
            "seats": [{"name": role, "role": role} for role in roles],
            "policies": policies,
            "agents": self.agents,
            "groups": self.groups,
        }
        rows = read_rows(self.path / "metrics.csv")
        if rows:
            self._iteration = int(rows[-1]["iteration"])
            seconds = [0.0, *(float(row.get("seconds") or 0.0) for row in rows[-2:])]
            self._lasted = seconds[-1] - seconds[-2]
        answers = {"run": run, "metrics": metrics(rows)}
        return Snapshot(answers, policies, self.stage, self._matchups(policies))

    def _matchups(self, policies: dict[str, list[str]]) -> list[tuple[str, ...]]:
        """The latest among themselves, the best, the older ones, then the latest against random ones."""
        latest = tuple(names[-1] for names in policies.values())
        best = checkpoint.best(self.folder)
        found = [latest] if best is None else [latest, tuple(best.name for _ in policies)]
        older = dict.fromkeys(name for names in policies.values() for name in reversed(names))
        found += [tuple(name for _ in policies) for name in older]
        if len(policies) > 1:
            found += [tuple(name if i == j else RANDOM for j, name in enumerate(latest)) for i in range(len(latest))]
        known = [each for each in found if all(map(list.__contains__, policies.values(), each))]
        return list(dict.fromkeys(known))


def metrics(rows: Sequence[dict[str, str]], most: int = ROWS) -> dict[str, Any]:
    """Curves: every column at the steps of worlds, of more than `most` rows the means of neighbours."""
    columns = list(rows[0]) if rows else []
    every = max(1, -(-len(rows) // most))
    parts = [rows[first : first + every] for first in range(0, len(rows), every)]
    return {"x": "steps", "every": every, "columns": columns, "rows": [_mean(part, columns) for part in parts]}


def _mean(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> list[float | int | None]:
    """The mean of what is known; of counters, the last."""
    found: list[float | int | None] = []
    for column in columns:
        known = [row[column] for row in rows if row[column]]
        if column in ("iteration", "steps"):
            found.append(int(known[-1]))
        else:
            found.append(sum(map(float, known)) / len(known) if known else None)
    return found
