"""Recorded episodes on disk: a folder of safetensors and JSON, complete or absent, never pickled.

recording/manifest.json          format, environment and its settings, numbers of the episodes, the file's digest
          steps.safetensors      what `gpu_envs.recording.Episode` holds, the steps of all episodes one after another
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.recording import Episode
from gpu_envs.registry import recorded_id
from trainers.evaluate import Outcome, Players, play
from trainers.files import check_fields, check_folder, read_json, read_tensors, sha256, write_json, write_tensors
from trainers.logs import Progress

FORMAT = "gpu-envs recording 1"  # of manifest.json
STEPS = "steps.safetensors"  # file of all episodes' steps
MANIFEST = {
    "format": str,
    "env_id": str,
    "env": dict[str, Any],
    "episodes": list[dict[str, Any]],
    "sha256": str,
}
"""Fields of manifest.json."""
EPISODE = {"world": int, "number": int, "length": int, "params": dict[str, float]}
"""Fields of each of its episodes."""
_STEPS = tuple(field.name for field in fields(Episode) if field.name not in ("world", "number", "state", "params"))


@dataclass(frozen=True)
class Recording:
    """Episodes of one environment."""

    path: Path
    """Its folder."""
    env_id: str
    """Environment that they were played in."""
    env: dict[str, Any]
    """Its settings, where they differ from its defaults."""
    episodes: list[Episode]
    """One of a world after another."""


def record(
    core: Core, players: Players, seed: int, greedy: bool = False, progress: Progress | None = None
) -> tuple[list[Episode], Outcome]:
    """Plays and records the first episode of every world; arguments as `trainers.evaluate.play`."""

    def tell(episodes: int) -> None:
        if progress is not None:
            progress(episodes, "recording")

    with core.record(range(core.num_envs)) as recorder:
        outcome = play(core, players, seed, greedy, finished_so_far=tell)
        return [episode for episode in recorder.take() if episode.number == 0], outcome


def save(path: Path, episodes: Sequence[Episode], env_id: str, env: Mapping[str, Any]) -> None:
    """Writes episodes of one environment, of equal settings, to a new folder.

    Args:
        path: The folder; it must not be there yet.
        episodes: At least one.
        env_id: Environment, as `gpu_envs.make` takes it.
        env: Its settings, where they differ from its defaults.

    Raises:
        ConfigError: The folder is there, or cannot be made, or there are no episodes.
    """
    if path.exists():
        raise ConfigError(f"{path}: expected a folder that is not there yet")
    if not episodes:
        raise ConfigError(f"{path}: expected at least one episode to save")
    check_folder(path.parent)
    tensors = {f"state.{name}": torch.cat([each.state[name] for each in episodes]) for name in episodes[0].state}
    for name in _STEPS:
        if getattr(episodes[0], name) is not None:
            tensors[name] = torch.cat([getattr(each, name) for each in episodes])
    temporary = path.with_name(f".writing-{path.name}-{os.getpid()}")
    temporary.mkdir(parents=True)
    try:
        write_tensors(temporary / "steps.safetensors", tensors)
        told = [{"world": e.world, "number": e.number, "length": len(e), "params": e.params} for e in episodes]
        digest = sha256(temporary / STEPS)
        manifest = {"format": FORMAT, "env_id": env_id, "env": dict(env), "episodes": told, "sha256": digest}
        write_json(temporary / "manifest.json", manifest)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load(path: Path) -> Recording:
    """Reads what `save` wrote; raises CheckpointError where it is not there, damaged or does not fit together."""
    file, steps = path / "manifest.json", path / STEPS
    manifest = read_json(file)
    if (got := manifest.get("format")) != FORMAT:
        raise CheckpointError(f"{file}: expected format {FORMAT!r}, got {got!r}")
    check_fields(str(file), manifest, MANIFEST)
    recorded_id(manifest["env_id"], str(file))
    told = [check_fields(f"{file}: episodes", each, EPISODE) for each in manifest["episodes"]]
    if (digest := sha256(steps)) != manifest["sha256"]:
        raise CheckpointError(f"{steps}: expected sha256 {manifest['sha256'][:12]}, got {digest[:12]} (damaged)")
    tensors, lengths = read_tensors(steps), [each["length"] for each in told]
    for name in ("obs", "action", "reward", "terminated", "truncated", "valid"):
        if name not in tensors or len(tensors[name]) != sum(lengths):
            raise CheckpointError(f"{steps}: {name}: expected {sum(lengths)} steps, as in {file.name}")
    parts: dict[str, tuple[Tensor, ...]] = {name: tensor.split(lengths) for name, tensor in tensors.items()}
    episodes = [
        Episode(
            world=each["world"],
            number=each["number"],
            params=each["params"],
            state={name.removeprefix("state."): part[i] for name, part in parts.items() if name.startswith("state.")},
            **{name: parts[name][i] for name in _STEPS if name in parts},
        )
        for i, each in enumerate(told)
    ]
    return Recording(path, manifest["env_id"], manifest["env"], episodes)
