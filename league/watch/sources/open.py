"""Choose the source that fits the run in a folder."""

from __future__ import annotations

from pathlib import Path

from gpu_envs.errors import ConfigError
from league.storage import database
from league.watch.sources.base import RunSource
from league.watch.sources.league import LeagueRun
from league.watch.sources.training import TrainingRun
from trainers.storage.run_folder import TRACES, run_kind

__all__ = ["open_source"]


def open_source(path: Path) -> RunSource:
    """Return the source of the training run or league run in a folder.

    Raises:
        ConfigError: The folder holds neither.
    """
    kind = run_kind(path)
    if kind == "league":
        return LeagueRun(path)
    if kind == "training":
        return TrainingRun(path)
    content = "no folder" if not path.is_dir() else "neither"
    if kind == "multi-seed":
        content = (
            f"runs of several seeds; name one of them, such as {min(path.glob('seed-*'), default=path / 'seed-0')}"
        )
    raise ConfigError(
        f"{path}: expected the folder of a run, with {database.DATABASE} (gpu-envs league train) or "
        f"{', '.join(TRACES)} (gpu-envs train), got {content}"
    )
