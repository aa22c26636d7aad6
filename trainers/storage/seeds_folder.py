"""The folder of several seeds of one training: a record of them, and a folder per run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError
from gpu_envs.utils.paths import check_folder
from gpu_envs.utils.settings import setting
from gpu_envs.utils.terminal import shell_command
from trainers.base.serialization import read_json, read_record, write_json, wrong_format
from trainers.storage.checkpoint import SEEDS
from trainers.storage.run_folder import check_kind

__all__ = ["FORMAT", "SeedsRecord", "check_new", "is_seeds_folder", "read_seeds", "run_name", "write_seeds"]

FORMAT = "gpu-envs seeds 1"  # format of seeds.json


@dataclass(frozen=True)
class SeedsRecord:
    """Content of seeds.json."""

    format: str
    """Format, equal to `trainers.storage.seeds_folder.FORMAT`."""
    num_seeds: int = setting(1, ge=1)
    """Number of runs."""
    config: dict[str, Any] = field(default_factory=dict)
    """TrainConfig of the first run as JSON; each following run has the next seed."""
    path: Path = Path()
    """Folder of the runs; it is not in the file."""


def run_name(seed: int) -> str:
    """Return the name of the folder of the run with a seed."""
    return f"seed-{seed}"


def is_seeds_folder(path: Path) -> bool:
    """Return whether a folder holds several seeds of one training."""
    return (path / SEEDS).is_file()


def read_seeds(path: Path) -> SeedsRecord:
    """Read the record of a folder.

    Raises:
        CheckpointError: The record is missing, damaged or of another format.
    """
    data = read_json(path / SEEDS)
    if (actual := data.get("format")) != FORMAT:
        raise wrong_format(path / SEEDS, FORMAT, actual)
    return dataclasses.replace(read_record(SeedsRecord, str(path / SEEDS), data, ("path",)), path=path)


def write_seeds(path: Path, num_seeds: int, config: dict[str, Any]) -> None:
    """Write the record of a folder."""
    write_json(path / SEEDS, {"format": FORMAT, "num_seeds": num_seeds, "config": config})


def check_new(path: Path) -> None:
    """Raise ConfigError unless the runs of several seeds can start in a folder."""
    check_folder(path)
    check_kind(path, "multi-seed")
    if is_seeds_folder(path):
        raise ConfigError(
            f"{path / SEEDS}: there are runs already; continue them with {shell_command('--resume', path)}, or choose "
            "another"
        )
