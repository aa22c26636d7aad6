"""Content of manifest.json in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_envs.errors import CheckpointError
from gpu_envs.utils.paths import LONGEST
from gpu_envs.utils.settings import setting
from trainers.base.serialization import (
    read_json,
    read_record,
    wrong_format,
)

__all__ = [
    "CONFIG",
    "FOLDER",
    "FORMAT",
    "OF_RUN",
    "REPLAY",
    "STATE",
    "SUFFIXES",
    "CheckpointManifest",
    "check_run",
    "files_of",
    "read_manifest",
]

FORMAT = "gpu-envs checkpoint 3"  # format of manifest.json
FOLDER = "checkpoints"  # subfolder of a run
CONFIG = "config.json"  # file of a run with its TrainConfig
REPLAY = "replay.safetensors"  # file of replay buffers
SUFFIXES = (".json", ".safetensors")
"""Suffixes of the two files of a policy."""
STATE = "state.safetensors"  # file of the state for resuming
OF_RUN = ("env_id", "env", "sharing", "policies", "algorithm")
"""Settings that are equal in a checkpoint and its run's config.json; a search for settings can change others."""


@dataclass(frozen=True)
class CheckpointManifest:
    """Content of manifest.json."""

    format: str
    """Format, equal to `trainers.storage.checkpoint_manifest.FORMAT`."""
    iteration: int = setting(0, ge=0)
    """Number of completed iterations."""
    steps: int = setting(0, ge=0)
    """Environment steps, summed over all environments."""
    score: float | None = None
    """Score that selects the best checkpoint."""
    config: dict[str, Any] = field(default_factory=dict)
    """TrainConfig of the run as JSON."""
    policies: list[str] = field(default_factory=list)
    """Names of the policies."""
    scalars: dict[str, int | float | str] = field(default_factory=dict)
    """Numbers and strings of the state."""
    sha256: dict[str, str] = field(default_factory=dict)
    """SHA-256 digests by file name."""


def read_manifest(path: Path) -> CheckpointManifest:
    """Read the manifest of a checkpoint; raise CheckpointError if a field or a file name is not valid."""
    file = path / "manifest.json"
    data = read_json(file)
    if (actual := data.get("format")) != FORMAT:
        raise wrong_format(file, FORMAT, actual)
    manifest = read_record(CheckpointManifest, str(file), data)
    for label, names in (("policies", manifest.policies), ("sha256", manifest.sha256)):
        for name in names:
            if not name.isprintable() or "/" in name or "\\" in name or len(name.encode()) > LONGEST:
                raise CheckpointError(f"{file}: {label}: expected names of files in this folder, got {name!r:.80}")
    if path.name.isdecimal() and int(path.name) != manifest.iteration:
        raise CheckpointError(f"{file}: iteration: expected {int(path.name)} as its folder, got {manifest.iteration}")
    needed = {STATE, *(entry for name in manifest.policies for entry in files_of(name))}
    if lacks := sorted(needed - manifest.sha256.keys()):
        raise CheckpointError(f"{file}: sha256: expected a digest of {lacks[0]}, got none")
    if more := sorted(manifest.sha256.keys() - needed - {REPLAY}):
        raise CheckpointError(f"{file}: sha256: expected digests of this checkpoint's files, got one of {more[0]}")
    return manifest


def check_run(path: Path, manifest: CheckpointManifest) -> None:
    """Raise CheckpointError if a checkpoint is in the folder of a different run."""
    run = path.resolve().parent.parent / CONFIG
    if path.resolve().parent.name != FOLDER or not run.exists():
        return
    recorded = read_json(run)
    for name in OF_RUN:  # the setting may be missing
        if name in recorded and name in manifest.config and recorded[name] != manifest.config[name]:
            expected, actual = recorded[name], manifest.config[name]
            raise CheckpointError(
                f"{path / 'manifest.json'}: {name}: expected {expected!r:.80} as in {run}, got {actual!r:.80}"
            )


def files_of(name: str) -> list[str]:
    """Return the file names of a policy."""
    return [f"policy-{name}{suffix}" for suffix in SUFFIXES]
