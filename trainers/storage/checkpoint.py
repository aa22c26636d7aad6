"""Checkpoints: one folder per iteration with safetensors and JSON files, written atomically.

The folder of a checkpoint, such as checkpoints/000000040, holds:

- manifest.json: format, configuration, counters, score and digests of the files
- state.safetensors: environments, learners, optimizers, normalizers and random streams
- replay.safetensors: replay buffers; only the newest checkpoint of a run has this file
- policy-NAME.json, policy-NAME.safetensors: each policy, for evaluation and leagues

A folder is written under a temporary name and renamed when all files are on disk, so a killed process leaves only
complete checkpoints. Replay buffers can be most of a checkpoint. A newer checkpoint therefore removes them from older
ones, which can still be evaluated, exported and used as opponents; training resumes from the newest.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError
from gpu_envs.utils.summaries import Summarized, Summary
from gpu_envs.utils.terminal import shell_command
from trainers.base.serialization import (
    check_digests,
    fsync_folder,
    read_tensors,
    sha256,
    write_json,
    write_tensors,
)
from trainers.models.policy import Policy
from trainers.storage import zoo_entries
from trainers.storage.checkpoint_manifest import (
    FOLDER,
    FORMAT,
    REPLAY,
    STATE,
    check_run,
    files_of,
    read_manifest,
)
from trainers.storage.zoo_entries import ZOO

__all__ = ["IN_REPLAY", "LEAGUE", "SEEDS", "Checkpoint", "best", "every", "find", "load", "load_policy", "save"]

LEAGUE = "league.db"  # file of a league's run
SEEDS = "seeds.json"  # file of several seeds of one training
IN_REPLAY = ".replay."
"""Part of the names of tensors in `REPLAY`."""


@dataclass(frozen=True, repr=False)
class Checkpoint(Summarized):
    """A checkpoint that was read and verified."""

    path: Path
    """Folder of the checkpoint."""
    iteration: int
    """Number of completed iterations."""
    steps: int
    """Environment steps, summed over all environments."""
    config: dict[str, Any]
    """TrainConfig of the run as JSON."""
    score: float | None
    """Score that selects the best checkpoint; higher is better."""
    state: dict[str, Tensor | int | float | str]
    """State for resuming, by name; see `check_resumable`."""
    policies: tuple[str, ...]
    """Names of the policies."""
    replay_left: bool = False
    """Whether a newer checkpoint has removed the replay buffers of this one."""

    def _summary(self) -> Summary:
        facts = {"algorithm": self.config.get("algorithm"), "iteration": self.iteration, "steps": self.steps}
        facts |= {"score": self.score, "policies": ", ".join(self.policies), "path": self.path}
        return Summary(str(self.config.get("env_id", "")), facts)

    def check_resumable(self) -> None:
        """Raise CheckpointError if the replay buffers were removed."""
        if self.replay_left:
            newest = every(self.path.parent)[-1:]
            source = "the newest of its run" if newest in ([], [self.path]) else str(newest[0])
            raise CheckpointError(
                f"{self.path}: only the newest checkpoint keeps its replay; resume from {source} "
                "(this one can be evaluated, exported and used as opponent)"
            )

    def number(self, name: str) -> float:
        """Return a number of the state.

        Raises:
            CheckpointError: The state has no such number.
        """
        value = self.state.get(name)
        if not isinstance(value, int | float):
            raise CheckpointError(f"{self.path / 'manifest.json'}: {name}: expected a number, got {value!r}")
        return value

    def policy(self, name: str, device: torch.device | str = "cpu", seed: int = 0) -> Policy:
        """Load a policy; raise CheckpointError for an unknown name."""
        return Policy.load(self.path / f"policy-{self.name_of(name)}", device, seed)

    def name_of(self, name: str | None) -> str:
        """Return the name of a policy; None is allowed if there is one policy. Raise CheckpointError otherwise."""
        return _name_of(self.path, self.policies, name)


def save(
    folder: Path,
    iteration: int,
    steps: int,
    config: dict[str, Any],
    state: dict[str, Tensor | int | float | str],
    policies: dict[str, Policy],
    score: float | None = None,
    keep_last_checkpoints: int = 3,
) -> Path:
    """Write a checkpoint atomically, then remove older replay buffers and checkpoints.

    The last `keep_last_checkpoints` and the best one are kept.

    Args:
        folder: Folder of the run's checkpoints.
        iteration: Number of completed iterations, which names the checkpoint.
        steps: Environment steps so far.
        config: JSON configuration of the run, with env_id and seed.
        state: Tensors and JSON scalars by name.
        policies: Frozen policies by name.
        score: Score that selects the best checkpoint; None: not evaluated.
        keep_last_checkpoints: Number of recent checkpoints to keep, at least 1.

    Returns:
        The folder of the checkpoint.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".writing-*"):  # of a killed process
        shutil.rmtree(leftover)
    temporary = folder / f".writing-{os.getpid()}"
    temporary.mkdir()
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    replay = {name: value for name, value in tensors.items() if IN_REPLAY in name}
    write_tensors(temporary / STATE, {k: v for k, v in tensors.items() if k not in replay})
    if replay:
        write_tensors(temporary / REPLAY, replay)
    for name, policy in policies.items():
        policy.save(temporary / f"policy-{name}")
    manifest = {
        "format": FORMAT,
        "iteration": iteration,
        "steps": steps,
        "score": score,
        "config": config,
        "policies": sorted(policies),
        "scalars": {name: value for name, value in state.items() if not isinstance(value, Tensor)},
        "sha256": {file.name: sha256(file) for file in sorted(temporary.iterdir())},
    }
    write_json(temporary / "manifest.json", manifest)
    final = folder / f"{iteration:09d}"
    replaced = folder / f".writing-{final.name}"
    if final.exists():  # renamed, not removed: after a kill in between the older checkpoints remain
        final.rename(replaced)
    temporary.rename(final)
    fsync_folder(folder)
    shutil.rmtree(replaced, ignore_errors=True)
    for old in _outdated(folder, keep_last_checkpoints):
        shutil.rmtree(old)
    for older in every(folder):  # the new checkpoint is on disk
        if older.name < final.name:
            (older / REPLAY).unlink(missing_ok=True)
    return final


def load(path: Path, device: torch.device | str = "cpu", replay: bool = True) -> Checkpoint:
    """Read and verify a checkpoint.

    Args:
        path: A checkpoint, or a run or its folder of checkpoints, whose last checkpoint is read.
        device: Device for the tensors.
        replay: Whether to read replay buffers.

    Raises:
        CheckpointError: There is no checkpoint, or it is damaged or has another format. The message names the file and
            the last intact checkpoint before it, if any.
    """
    path = find(path)
    try:
        return _read(path, device, replay)
    except CheckpointError as error:
        older = [other for other in every(path.parent) if other.name < path.name]
        intact = next((other for other in reversed(older) if _is_whole(other)), None)
        if intact is None:
            raise
        raise CheckpointError(f"{error}; the last intact one before it is {intact}") from error


def load_policy(path: Path | str, name: str | None = None, device: torch.device | str = "cpu", seed: int = 0) -> Policy:
    """Load one policy of a checkpoint, which returns actions by `policy.act(obs)`.

    Args:
        path: A checkpoint, a run, whose last checkpoint is used, or "zoo:NAME".
        name: Name of the policy; None is allowed if there is one policy.
        device: Device for the policy.
        seed: Random seed of sampled actions.

    Raises:
        CheckpointError: There is no checkpoint, it is damaged, or it has several policies and `name` is None.
    """
    path = find(Path(path))
    manifest = read_manifest(path)
    check_run(path, manifest)
    name = _name_of(path, manifest.policies, name)
    check_digests(path, {file: manifest.sha256[file] for file in files_of(name)})
    return Policy.load(path / f"policy-{name}", device, seed)


def _name_of(path: Path, policies: Sequence[str], name: str | None) -> str:
    if name is None and len(policies) == 1:
        return policies[0]
    if name is None or name not in policies:
        actual = "no name" if name is None else repr(name)
        raise CheckpointError(f"{path}: expected a policy among {', '.join(policies)}, got {actual}")
    return name


def _read(path: Path, device: torch.device | str = "cpu", replay: bool = True) -> Checkpoint:
    manifest = read_manifest(path)
    check_run(path, manifest)
    digests = manifest.sha256
    has_replay = REPLAY in digests and (path / REPLAY).exists()
    read = has_replay and replay
    check_digests(path, {file: digest for file, digest in digests.items() if read or file != REPLAY})
    buffers = read_tensors(path / REPLAY, device) if read else {}
    return Checkpoint(
        path=path,
        iteration=manifest.iteration,
        steps=manifest.steps,
        config=manifest.config,
        score=manifest.score,
        state={**read_tensors(path / STATE, device), **buffers, **manifest.scalars},
        policies=tuple(manifest.policies),
        replay_left=REPLAY in digests and not has_replay,
    )


def _is_whole(path: Path) -> bool:
    try:
        _read(path)
    except CheckpointError:
        return False
    return True


def find(path: Path) -> Path:
    """Return the folder of a checkpoint: the path itself, the last checkpoint of a run, or the model of "zoo:NAME".

    Raises:
        CheckpointError: There is no checkpoint.
    """
    if str(path).startswith(ZOO):
        return zoo_entries.folder(str(path).removeprefix(ZOO))
    if (path / "manifest.json").exists():
        return path
    for folder in (path, path / FOLDER):
        if folders := every(folder):
            return folders[-1]
    if (path / LEAGUE).is_file():
        raise CheckpointError(
            f"{path}: expected a checkpoint, or a run with checkpoints, got a league's run; "
            f"{shell_command('gpu-envs', 'league', 'render', path)} shows its policies, and "
            f"{shell_command('gpu-envs', 'league', 'export', path)} --output FOLDER writes them as a checkpoint"
        )
    if (path / SEEDS).is_file():
        runs = sorted(run.name for run in path.glob("seed-*"))
        raise CheckpointError(
            f"{path}: expected a checkpoint, or a run with checkpoints, got runs of several seeds; "
            f"name one of them, such as {path / next(iter(runs), 'seed-0')}"
        )
    hint = f"create one with {shell_command('gpu-envs', 'train', 'ID', '--run-dir', path)}"
    raise CheckpointError(f"{path}: expected a checkpoint, or a run with checkpoints, got neither; {hint}")


def best(folder: Path) -> Path | None:
    """Return the checkpoint with the highest score, the later one of equals; None if none has a score.

    Unreadable checkpoints are ignored, so that they do not stop a training.
    """
    scores = []
    for path in every(folder):
        with contextlib.suppress(CheckpointError):
            scores.append((read_manifest(path).score, path))
    return max(((score, path) for score, path in scores if score is not None), default=(None, None))[1]


def every(folder: Path) -> list[Path]:
    """Return the complete checkpoints of a folder, oldest first."""
    return sorted(path for path in folder.glob("[0-9]*") if path.name.isdecimal() and (path / "manifest.json").exists())


def _outdated(folder: Path, keep_last_checkpoints: int) -> list[Path]:
    top = best(folder)
    return [path for path in every(folder)[: -max(keep_last_checkpoints, 1)] if path != top]
