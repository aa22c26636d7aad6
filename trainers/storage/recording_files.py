"""Recorded episodes on disk: a folder of safetensors and JSON, complete or absent, never pickled.

recording/manifest.json          format, environment and its settings, numbers of the episodes, the file's digest
          steps.safetensors      what `gpu_envs.recording.Episode` holds, the steps of all episodes one after another
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.factory import check_played
from gpu_envs.paths import check_folder
from gpu_envs.recording import Episode, check_episode
from gpu_envs.registry import recorded_id
from trainers.evaluate import Outcome, Players, play
from trainers.files import (
    check_digests,
    check_finite,
    read_json,
    read_record,
    read_tensors,
    sha256,
    write_json,
    write_tensors,
)
from trainers.logs import Progress
from trainers.settings import setting

FORMAT = "gpu-envs recording 1"  # of manifest.json
STEPS = "steps.safetensors"  # file of all episodes' steps
_STATE = "state."  # begins the names of the rules' State
_NEEDED = ("obs", "action", "reward", "terminated", "truncated", "valid")  # tensors of every recording


@dataclass(frozen=True)
class Manifest:
    """What manifest.json holds."""

    format: str
    """`FORMAT`."""
    env_id: str
    """See `Recording`, as for the next."""
    env: dict[str, Any]
    """Settings of the environment."""
    episodes: list[dict[str, Any]]
    """Each as `EpisodeRecord`."""
    sha256: str
    """Digest of the steps."""


@dataclass(frozen=True)
class EpisodeRecord:
    """What manifest.json holds of an episode, see `gpu_envs.recording.Episode`."""

    world: int = setting(0, ">= 0")
    """Index of the world."""
    number: int = setting(0, ">= 0")
    """Episodes before it."""
    length: int = setting(1, ">= 1")
    """T."""
    params: dict[str, float] = field(default_factory=dict)
    """Constants of the rules."""


_STEPS = tuple(each.name for each in fields(Episode) if each.name not in ("world", "number", "state", "params"))


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

    def check_core(self, core: Core) -> None:
        """Check that the episodes are of an environment's agents; CheckpointError names what does not fit."""
        most, file = _choices(core), self.path / STEPS
        for episode in self.episodes:
            try:
                check_episode(core, episode)
            except CheckpointError as error:
                raise CheckpointError(f"{file}: {error}") from None
            check_finite(str(file), {"obs": episode.obs, "action": episode.action})
            if most is not None and not bool((episode.action < most).all()):
                raise CheckpointError(f"{file}: action: expected choices of {core.id}, got others")


def _choices(core: Core) -> Tensor | None:
    """Choices of every agent, (A) or (A, K) as actions; None where actions are continuous."""
    if core.action_buffer.is_floating_point():
        return None
    most = torch.ones(core.action_buffer.shape[1:], dtype=torch.int64)
    for row, agent in enumerate(core.possible_agents):
        space = core.action_spaces[agent]
        if isinstance(space, spaces.MultiDiscrete):
            most[row, : len(space.nvec)] = torch.from_numpy(space.nvec)
        elif isinstance(space, spaces.Discrete):
            most[row] = int(space.n)
    return most


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


def check_new(path: Path) -> None:
    """Checks that `save` can make a folder; ConfigError if it is there or cannot be made."""
    check_folder(path)
    if path.exists():
        raise ConfigError(f"{path}: expected a folder that is not there yet")


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
    check_new(path)
    if not episodes:
        raise ConfigError(f"{path}: expected at least one episode to save")
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
    data = read_json(file, finite=False)
    if (got := data.get("format")) != FORMAT:
        raise CheckpointError(f"{file}: expected format {FORMAT!r}, got {got!r:.80}")
    manifest = read_record(Manifest, str(file), data)
    recorded_id(manifest.env_id, str(file))
    try:
        check_played(f"{file}: env", manifest.env)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    told = [read_record(EpisodeRecord, f"{file}: episodes", each) for each in manifest.episodes]
    check_digests(path, {STEPS: manifest.sha256})
    tensors, lengths = read_tensors(steps), [each.length for each in told]
    for name in dict.fromkeys((*_NEEDED, *tensors)):
        if name not in tensors or tensors[name].shape[:1] != (sum(lengths),):
            raise CheckpointError(f"{steps}: {name}: expected {sum(lengths)} steps, as in {file.name}")
    parts: dict[str, tuple[Tensor, ...]] = {name: tensor.split(lengths) for name, tensor in tensors.items()}
    episodes = [
        Episode(
            world=each.world,
            number=each.number,
            params=each.params,
            state={name.removeprefix(_STATE): part[i] for name, part in parts.items() if name.startswith(_STATE)},
            **{name: parts[name][i] for name in _STEPS if name in parts},
        )
        for i, each in enumerate(told)
    ]
    return Recording(path, manifest.env_id, manifest.env, episodes)
