"""Files of recorded episodes: a folder with safetensors and JSON, written atomically.

- manifest.json: format, environment and settings, length of each episode, digest of the other file
- steps.safetensors: tensors of `gpu_envs.runtime.episode_recorder.Episode`, all episodes concatenated
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_envs.definition.registry import recorded_id
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.episode_recorder import Episode
from gpu_envs.runtime.factory import check_played
from gpu_envs.utils.paths import check_folder
from gpu_envs.utils.settings import setting
from trainers.base.serialization import (
    check_digests,
    check_finite,
    read_json,
    read_record,
    read_tensors,
    sha256,
    write_json,
    write_tensors,
    wrong_format,
)

FORMAT = "gpu-envs recording 1"  # format of manifest.json
STEPS = "steps.safetensors"  # file of the steps of all episodes
_STATE = "state."  # prefix of fields of the rules' State
_NEEDED = ("obs", "action", "reward", "terminated", "truncated", "valid")  # required tensors


@dataclass(frozen=True)
class RecordingManifest:
    """Content of manifest.json."""

    format: str
    """Format, equal to `FORMAT`."""
    env_id: str
    """Id of the environment."""
    env: dict[str, Any]
    """Settings of the environment that differ from its defaults."""
    episodes: list[dict[str, Any]]
    """Episodes, each as an `EpisodeRecord`."""
    sha256: str
    """SHA-256 digest of the file with the steps."""


@dataclass(frozen=True)
class EpisodeRecord:
    """Entry of an episode in manifest.json, see `gpu_envs.runtime.episode_recorder.Episode`."""

    world: int = setting(0, ge=0)
    """Index of the environment."""
    number: int = setting(0, ge=0)
    """Number of earlier episodes in the environment."""
    length: int = setting(1, ge=1)
    """Number of steps."""
    params: dict[str, float] = field(default_factory=dict)
    """Environment parameters by name."""


_STEPS = tuple(f.name for f in fields(Episode) if f.name not in ("world", "number", "state", "params"))


@dataclass(frozen=True)
class Recording:
    """Episodes of one environment."""

    path: Path
    """Folder of the recording."""
    env_id: str
    """Id of the environment."""
    env: dict[str, Any]
    """Settings of the environment that differ from its defaults."""
    episodes: list[Episode]
    """Recorded episodes."""

    def check_core(self, core: Core) -> None:
        """Raise CheckpointError if the episodes do not fit the agents of an environment."""
        file, counts = self.path / STEPS, core.num_choices
        counts = torch.where(counts > 0, counts, counts[:, :1])  # components that an agent does not have are not used
        for episode in self.episodes:
            try:
                core.check_episode(episode)
            except CheckpointError as error:
                raise CheckpointError(f"{file}: {error}") from None
            check_finite(str(file), {"obs": episode.obs, "action": episode.action})
            is_discrete = not episode.action.is_floating_point()
            if is_discrete and not bool((episode.action < counts.view(episode.action.shape[1:])).all()):
                raise CheckpointError(f"{file}: action: expected choices of {core.id}, got others")


def check_new(path: Path) -> None:
    """Raise ConfigError if a folder exists or cannot be created."""
    check_folder(path)
    if path.exists():
        raise ConfigError(f"{path}: expected a folder that does not exist")


def save(path: Path, episodes: Sequence[Episode], env_id: str, env: Mapping[str, Any]) -> None:
    """Write episodes of one environment to a new folder.

    Args:
        path: The folder, which must not exist.
        episodes: At least one episode.
        env_id: Id of the environment.
        env: Settings of the environment that differ from its defaults.

    Raises:
        ConfigError: The folder exists or cannot be created, or there are no episodes.
    """
    check_new(path)
    if not episodes:
        raise ConfigError(f"{path}: expected at least one episode to save")
    tensors = {f"state.{name}": torch.cat([episode.state[name] for episode in episodes]) for name in episodes[0].state}
    for name in _STEPS:
        if getattr(episodes[0], name) is not None:
            tensors[name] = torch.cat([getattr(episode, name) for episode in episodes])
    temporary = path.with_name(f".writing-{path.name}-{os.getpid()}")
    temporary.mkdir(parents=True)
    try:
        write_tensors(temporary / "steps.safetensors", tensors)
        records = [{"world": e.world, "number": e.number, "length": len(e), "params": e.params} for e in episodes]
        digest = sha256(temporary / STEPS)
        manifest = {"format": FORMAT, "env_id": env_id, "env": dict(env), "episodes": records, "sha256": digest}
        write_json(temporary / "manifest.json", manifest)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load(path: Path) -> Recording:
    """Read a folder that `save` wrote; raise CheckpointError if it is missing, damaged or inconsistent."""
    file, steps = path / "manifest.json", path / STEPS
    data = read_json(file, finite=False)
    if (actual := data.get("format")) != FORMAT:
        raise wrong_format(file, FORMAT, actual)
    manifest = read_record(RecordingManifest, str(file), data)
    recorded_id(manifest.env_id, str(file))
    try:
        check_played(f"{file}: env", manifest.env)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    records = [read_record(EpisodeRecord, f"{file}: episodes", record) for record in manifest.episodes]
    check_digests(path, {STEPS: manifest.sha256})
    tensors, lengths = read_tensors(steps), [record.length for record in records]
    for name in dict.fromkeys((*_NEEDED, *tensors)):
        if name not in tensors or tensors[name].shape[:1] != (sum(lengths),):
            raise CheckpointError(f"{steps}: {name}: expected {sum(lengths)} steps, as in {file.name}")
    parts: dict[str, tuple[Tensor, ...]] = {name: tensor.split(lengths) for name, tensor in tensors.items()}
    episodes = [
        Episode(
            world=record.world,
            number=record.number,
            params=record.params,
            state={name.removeprefix(_STATE): part[i] for name, part in parts.items() if name.startswith(_STATE)},
            **{name: parts[name][i] for name in _STEPS if name in parts},
        )
        for i, record in enumerate(records)
    ]
    return Recording(path, manifest.env_id, manifest.env, episodes)
