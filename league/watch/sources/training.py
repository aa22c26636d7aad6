"""Source of the viewer for training runs: metrics.csv and the policies of checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_envs.errors import CheckpointError
from gpu_envs.rendering.palette import role_colors
from gpu_envs.runtime.core import Core
from league.game import Seat
from league.watch.sources.base import RunSnapshot
from trainers.base.serialization import read_json
from trainers.config.train_config import TrainConfig, make_train_core, members_by_policy
from trainers.models.policy import PolicyProtocol
from trainers.storage import checkpoint, folder_lock
from trainers.storage.learning_curves import read_rows

MAX_ROWS = 2000
"""Maximum number of points of a curve; of more, neighboring points are averaged."""
MIN_IDLE = 60.0
"""Time without a change after which a training counts as ended, unless three iterations take longer [s]."""
RANDOM = "random"
"""Name of the policy with random actions."""


@dataclass(frozen=True)
class TrainingRolloutEnvironment:
    """Environment of a training with the policies of its checkpoints."""

    config: TrainConfig
    """Configuration of the training."""
    folder: Path
    """Folder of the checkpoints."""
    seats: tuple[Seat, ...]
    """Seats, each played by one policy."""

    def core(self, num_envs: int) -> Core:
        """Return the worlds, see `league.watch.rollouts.RolloutEnvironment`."""
        return make_train_core(self.config, num_envs, self.config.seed, autoreset="disabled")

    def policy(self, seat: int, name: str) -> PolicyProtocol | None:
        """Load the policy of a seat from a checkpoint."""
        return None if name == RANDOM else checkpoint.load_policy(self.folder / name, self.seats[seat].role)

    def present(self, name: str) -> str:
        """Return the name of a checkpoint, or of the newest one if the training has removed it meanwhile."""
        if name == RANDOM or (self.folder / name).is_dir():
            return name
        newest = checkpoint.every(self.folder)[-1:]
        return newest[0].name if newest else name


class TrainingRun:
    """Training run, see `league.watch.sources.base.RunSource`."""

    def __init__(self, path: Path) -> None:
        """Read the configuration of the run in a folder.

        Raises:
            CheckpointError: It is missing or damaged, or the module of the environment is not imported.
        """
        self.path: Path = path
        self.folder: Path = path / "checkpoints"
        file, last = path / checkpoint.CONFIG, checkpoint.every(self.folder)[-1:]
        for saved in last or ([] if file.exists() else [checkpoint.find(path)]):
            manifest = checkpoint.read_manifest(saved)
            checkpoint.check_run(saved, manifest)
            self.recorded: dict[str, Any] = manifest.config
        if file.exists():
            self.recorded = read_json(file)
        config = dataclasses.replace(TrainConfig.from_json(self.recorded, str(file)), device="cpu")
        core = make_train_core(config, 1, config.seed)
        sides = members_by_policy(config, core)
        self.stage = TrainingRolloutEnvironment(
            config, self.folder, tuple(Seat(name, name, tuple(members)) for name, members in sides.items())
        )
        self._iteration, self._lasted = 0, 0.0  # last iteration and its duration [s]
        self.agents: list[str] = list(core.possible_agents)
        self.groups: dict[str, list[str]] = {
            group: [self.agents[row] for row in rows] for group, rows in core.groups.items()
        }

    def files(self) -> Iterator[Path]:
        """Return the files of the configuration, the metrics and the checkpoints."""
        yield self.path / "config.json"
        yield self.path / "metrics.csv"
        for folder in checkpoint.every(self.folder):
            yield folder / "manifest.json"

    def progress(self) -> tuple[int, int, bool]:
        """Return completed iterations, all iterations, and whether a goal or a lack of progress may end the run."""
        config = self.stage.config
        return self._iteration, config.iterations, config.until_return is not None or config.patience > 0

    def writing(self) -> bool:
        """Return whether the training has steps left and a process holds its lock.

        A folder without a lock, such as a copy, counts as written for a while after its last change.
        """
        if self._iteration >= self.stage.config.iterations:
            return False
        locked = [folder for folder in (self.path, self.path.parent) if (folder / folder_lock.LOCK).is_file()]
        if locked:  # several seeds have one lock, their folder's
            return any(map(folder_lock.is_held, locked))
        try:
            changed = max(file.stat().st_mtime for file in self.files() if file.exists())
        except FileNotFoundError:  # a checkpoint was removed meanwhile
            return True
        return time.time() - changed < max(MIN_IDLE, 3.0 * self._lasted)

    def read(self) -> RunSnapshot:
        """Read metrics, names of checkpoints, and the configuration, which a resumed run may have changed."""
        if (file := self.path / "config.json").exists() and (recorded := read_json(file)) != self.recorded:
            config = dataclasses.replace(TrainConfig.from_json(recorded, str(file)), device="cpu")
            self.stage: TrainingRolloutEnvironment
            self.recorded, self.stage = recorded, dataclasses.replace(self.stage, config=config)
        roles = [seat.role for seat in self.stage.seats]
        policies = {role: [RANDOM] for role in roles}
        for folder in checkpoint.every(self.folder):
            with contextlib.suppress(CheckpointError):  # a checkpoint was removed meanwhile
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
            "latest": {role: names[-1] for role, names in policies.items()},
            "mixture": None,
            "colors": role_colors(config.env_id, [*roles, *self.groups]),
            "agents": self.agents,
            "groups": self.groups,
        }
        rows = read_rows(self.path / "metrics.csv")
        if rows:
            self._iteration = int(rows[-1]["iteration"])
            seconds = [0.0, *(float(row.get("seconds") or 0.0) for row in rows[-2:])]
            self._lasted = seconds[-1] - seconds[-2]
        answers = {"run": run, "metrics": metric_rows(rows)}
        return RunSnapshot(answers, policies, self.stage, self._matchups(policies), run["latest"])

    def _matchups(self, policies: dict[str, list[str]]) -> list[tuple[str, ...]]:
        """Return the latest policies, the best, the older ones, and the latest against random ones."""
        latest = tuple(names[-1] for names in policies.values())
        best = checkpoint.best(self.folder)
        matchups = [latest] if best is None else [latest, tuple(best.name for _ in policies)]
        older = dict.fromkeys(name for names in policies.values() for name in reversed(names))
        matchups += [tuple(name for _ in policies) for name in older]
        if len(policies) > 1:
            matchups += [tuple(name if i == j else RANDOM for j, name in enumerate(latest)) for i in range(len(latest))]
        available = [matchup for matchup in matchups if all(map(list.__contains__, policies.values(), matchup))]
        return list(dict.fromkeys(available))


def metric_rows(rows: Sequence[dict[str, str]], limit: int = MAX_ROWS) -> dict[str, Any]:
    """Return the curves of all columns; of more than `limit` rows, neighboring ones are averaged."""
    columns = list(rows[0]) if rows else []
    interval = max(1, -(-len(rows) // limit))
    parts = [rows[first : first + interval] for first in range(0, len(rows), interval)]
    return {"x": "env_steps", "every": interval, "columns": columns, "rows": [_mean(part, columns) for part in parts]}


def _mean(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> list[float | int | None]:
    """Return the mean of the known values of every column; counters keep their last value."""
    means: list[float | int | None] = []
    for column in columns:
        values = [row[column] for row in rows if row[column]]
        if column in ("iteration", "env_steps"):
            means.append(int(values[-1]))
        else:
            means.append(sum(map(float, values)) / len(values) if values else None)
    return means
