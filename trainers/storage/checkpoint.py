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
import dataclasses
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.paths import LONGEST
from gpu_envs.utils.settings import setting
from gpu_envs.utils.suggestions import similar_names
from gpu_envs.utils.summaries import Summarized, Summary
from gpu_envs.utils.terminal import shell_command
from trainers.base.serialization import (
    check_digests,
    fsync_folder,
    read_json,
    read_record,
    read_tensors,
    sha256,
    write_json,
    write_tensors,
    wrong_format,
)
from trainers.base.shard import Shard
from trainers.base.state import to_device
from trainers.models.policy import Policy

FORMAT = "gpu-envs checkpoint 3"  # format of manifest.json
FOLDER = "checkpoints"  # subfolder of a run
CONFIG = "config.json"  # file of a run with its TrainConfig
STATE = "state.safetensors"  # file of the state for resuming
REPLAY = "replay.safetensors"  # file of replay buffers
LEAGUE = "league.db"  # file of a league's run
SEEDS = "seeds.json"  # file of several seeds of one training
IN_REPLAY = ".replay."
"""Part of the names of tensors in `REPLAY`."""
OF_RUN = ("env_id", "env", "sharing", "policies", "algorithm")
"""Settings that are equal in a checkpoint and its run's config.json; a search for settings can change others."""
ZOO = "zoo:"
"""Prefix that marks a name of the model zoo in place of a path."""
ZOO_FOLDER = Path(__file__).parents[1] / "zoo"
"""Folder of the model zoo."""


# ---------------------------------------------------------------- manifest


@dataclass(frozen=True)
class CheckpointManifest:
    """Content of manifest.json."""

    format: str
    """Format, equal to `FORMAT`."""
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
    needed = {STATE, *(entry for name in manifest.policies for entry in _files_of(name))}
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


def _files_of(name: str) -> list[str]:
    """Return the file names of a policy."""
    return [f"policy-{name}.json", f"policy-{name}.safetensors"]


# ---------------------------------------------------------------- checkpoint


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
    top = best(folder)
    for old in every(folder)[: -max(keep_last_checkpoints, 1)]:
        if old != top:
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


def load_on_rank0(shard: Shard, load: Callable[[], Checkpoint | None]) -> Checkpoint | None:
    """Load a checkpoint on rank 0 and return it there; other ranks get its metadata.

    On other ranks the tensors of its state have shapes only (device "meta"), which is what `scatter_state` needs.

    Args:
        shard: Shard of this rank.
        load: Called on rank 0, such as `lambda: checkpoint.load(path)`; may return None if there is no checkpoint.

    Raises:
        GpuEnvsError: The error that `load` raised, on all ranks.
    """
    if shard.ranks == 1:
        return load()
    loaded: list[Checkpoint | None] = []

    def load_metadata() -> Checkpoint | None:
        loaded.append(load())
        return loaded[0] and dataclasses.replace(loaded[0], state=to_device(loaded[0].state, "meta"))

    metadata = shard.broadcast_from_rank0(load_metadata)
    return loaded[0] if loaded else metadata


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
    check_digests(path, {file: manifest.sha256[file] for file in _files_of(name)})
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
        return zoo_folder(str(path).removeprefix(ZOO))
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


def zoo_names() -> list[str]:
    """Return the names of all entries of the model zoo."""
    return sorted(file.parent.name for file in ZOO_FOLDER.glob("*/about.json"))


def zoo_folder(name: str) -> Path:
    """Return the folder of an entry of the model zoo; raise ConfigError for an unknown name."""
    if name not in zoo_names():
        suggestions = similar_names(name, zoo_names())
        hint = f"did you mean {ZOO}{suggestions[0]}?" if suggestions else f"expected one of {', '.join(zoo_names())}"
        raise ConfigError(f"no model in the zoo named {name!r}; {hint}")
    return ZOO_FOLDER / name


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
