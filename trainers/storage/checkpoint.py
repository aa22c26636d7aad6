"""Checkpoints: one folder per iteration, safetensors and JSON only, complete or absent.

    checkpoints/000000040/manifest.json             format, env id, configuration, seed, counters, score, file digests
                          state.safetensors         environment, learners, optimisers, normalisers, random streams
                          replay.safetensors        what learners keep to learn from; only the newest checkpoint has it
                          policy-<name>.json, .safetensors    each policy by itself, for evaluation and the league

A folder is written under a temporary name and renamed once everything in it is on disk, so that a process killed at
any moment leaves only whole checkpoints. A replay can be most of a checkpoint by far: once a newer checkpoint is there
with one, the older ones lose theirs. They can be evaluated, exported and played against; training goes on from the
newest.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError
from gpu_envs.paths import LONGEST
from trainers.files import (
    check_digests,
    fsync_folder,
    read_json,
    read_record,
    read_tensors,
    sha256,
    write_json,
    write_tensors,
)
from trainers.policy import Policy
from trainers.settings import setting

FORMAT = "gpu-envs checkpoint 2"  # of manifest.json
ZOO = "zoo:"
"""Before the name of a model of `trainers.zoo`, in place of a path."""
FOLDER = "checkpoints"  # of a run, which holds its checkpoints
CONFIG = "config.json"  # file of a run, with its TrainConfig
LEAGUE = "league.db"  # file of a league's run, whose policies are shown by commands of `league`
REPLAY = "replay.safetensors"  # file of what a replay holds
IN_REPLAY = ".replay."
"""In the names of what goes there."""
SUFFIXES = (".json", ".safetensors")
"""Of the two files of a policy."""
STATE = "state.safetensors"  # file of what a continuation needs
OF_RUN = ("env_id", "env", "sharing", "policies", "algorithm")
"""Settings that a checkpoint has in common with its run's config.json; trials of a search change others."""


@dataclass(frozen=True)
class Manifest:
    """What manifest.json holds."""

    format: str
    """`FORMAT`."""
    iteration: int = setting(0, ">= 0")
    """See `Checkpoint`, as for the fields below."""
    steps: int = setting(0, ">= 0")
    """Steps of worlds."""
    score: float | None = None
    """What "best" is chosen by."""
    config: dict[str, Any] = field(default_factory=dict)
    """The run's TrainConfig."""
    policies: list[str] = field(default_factory=list)
    """Names of the policies."""
    scalars: dict[str, int | float | str] = field(default_factory=dict)
    """What the state holds beside tensors."""
    sha256: dict[str, str] = field(default_factory=dict)
    """Digests of the files, by their names."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that has been read and verified."""

    path: Path
    """Its folder."""
    iteration: int
    """Rollouts that were learned from."""
    steps: int
    """Steps of worlds that were played."""
    config: dict[str, Any]
    """The run's TrainConfig as JSON."""
    score: float | None
    """What "best" is chosen by; higher is better."""
    state: dict[str, Tensor | int | float | str]
    """Everything a continuation needs, by name; see `check_resumable`."""
    policies: tuple[str, ...]
    """Names of the policies in it."""
    replay_left: bool = False
    """It had a replay, which has left for that of a newer checkpoint."""

    def check_resumable(self) -> None:
        """Raises CheckpointError where the replay has left."""
        if self.replay_left:
            newest = every(self.path.parent)[-1:]
            where = "the newest of its run" if newest in ([], [self.path]) else str(newest[0])
            raise CheckpointError(
                f"{self.path}: its replay was not kept, as only that of the newest checkpoint is; resume from {where} "
                "(this one can be evaluated, exported and played against)"
            )

    def policy(self, name: str, device: torch.device | str = "cpu", seed: int = 0) -> Policy:
        """Loads one policy; raises CheckpointError for a name that is not there."""
        return Policy.load(self.path / f"policy-{self.name_of(name)}", device, seed)

    def name_of(self, name: str | None) -> str:
        """The policy meant by a name, or by none where there is but one; raises CheckpointError."""
        return _name_of(self.path, self.policies, name)


def save(
    folder: Path,
    iteration: int,
    steps: int,
    config: dict[str, Any],
    state: dict[str, Tensor | int | float | str],
    policies: dict[str, Policy],
    score: float | None = None,
    keep_last: int = 3,
) -> Path:
    """Writes a checkpoint atomically, then removes older replays and all but the last `keep_last` and the best.

    Args:
        folder: The run's folder of checkpoints.
        iteration: Names the checkpoint.
        steps: Environment steps so far.
        config: JSON configuration of the run, with env_id and seed.
        state: Tensors and JSON scalars by name.
        policies: Frozen policies by name.
        score: What "best" is chosen by, None if not measured.
        keep_last: Checkpoints to keep, at least 1.

    Returns:
        The checkpoint's folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".writing-*"):  # of a process that was killed
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
    if final.exists():  # set aside, not removed: a kill in between costs a name, and the older checkpoints stand
        final.rename(replaced)
    temporary.rename(final)
    fsync_folder(folder)
    shutil.rmtree(replaced, ignore_errors=True)
    for old in _outdated(folder, keep_last):
        shutil.rmtree(old)
    for older in every(folder):  # now that the new one is there, and durable
        if older.name < final.name:
            (older / REPLAY).unlink(missing_ok=True)
    return final


def load(path: Path, device: torch.device | str = "cpu", replay: bool = True) -> Checkpoint:
    """Reads and verifies a checkpoint.

    Args:
        path: A checkpoint, or a run or its folder of checkpoints (then the last one).
        device: Where the tensors go.
        replay: Read what learners keep to learn from, too.

    Raises:
        CheckpointError: Nothing there, damaged, or of another format; the line names the file, expected and got, and
            the last whole checkpoint before it, if there is one.
    """
    path = find(path)
    try:
        return _read(path, device, replay)
    except CheckpointError as error:
        older = [other for other in every(path.parent) if other.name < path.name]
        whole = next((other for other in reversed(older) if _is_whole(other)), None)
        if whole is None:
            raise
        raise CheckpointError(f"{error}; the last whole one before it is {whole}") from error


def load_policy(path: Path | str, name: str | None = None, device: torch.device | str = "cpu", seed: int = 0) -> Policy:
    """One policy of a checkpoint, to play with: `policy.act(obs)`; nothing else of the checkpoint is read.

    Args:
        path: A checkpoint, or a run (then its last one).
        name: Which of its policies; None where there is but one.
        device: Where it runs.
        seed: Of its samples.

    Raises:
        CheckpointError: Nothing there, damaged, or several policies and no name.
    """
    path = find(Path(path))
    manifest = read_manifest(path)
    check_run(path, manifest)
    name = _name_of(path, manifest.policies, name)
    check_digests(path, {file: manifest.sha256[file] for file in _files(name)})
    return Policy.load(path / f"policy-{name}", device, seed)


def _name_of(path: Path, policies: Sequence[str], name: str | None) -> str:
    if name is None and len(policies) == 1:
        return policies[0]
    if name is None or name not in policies:
        got = "no name" if name is None else repr(name)
        raise CheckpointError(f"{path}: expected a policy among {', '.join(policies)}, got {got}")
    return name


def _read(path: Path, device: torch.device | str = "cpu", replay: bool = True) -> Checkpoint:
    manifest = read_manifest(path)
    check_run(path, manifest)
    digests = manifest.sha256
    kept = REPLAY in digests and (path / REPLAY).exists()
    read = kept and replay
    check_digests(path, {file: digest for file, digest in digests.items() if read or file != REPLAY})
    held = read_tensors(path / REPLAY, device) if read else {}
    return Checkpoint(
        path=path,
        iteration=manifest.iteration,
        steps=manifest.steps,
        config=manifest.config,
        score=manifest.score,
        state={**read_tensors(path / STATE, device), **held, **manifest.scalars},
        policies=tuple(manifest.policies),
        replay_left=REPLAY in digests and not kept,
    )


def _is_whole(path: Path) -> bool:
    try:
        _read(path)
    except CheckpointError:
        return False
    return True


def read_manifest(path: Path) -> Manifest:
    """Reads the manifest of a checkpoint; raises CheckpointError where a field, or the files it names, are wrong."""
    file = path / "manifest.json"
    data = read_json(file)
    if (got := data.get("format")) != FORMAT:
        raise CheckpointError(f"{file}: expected format {FORMAT!r}, got {got!r:.80}")
    manifest = read_record(Manifest, str(file), data)
    for what, names in (("policies", manifest.policies), ("sha256", manifest.sha256)):
        for name in names:
            if not name.isprintable() or "/" in name or "\\" in name or len(name.encode()) > LONGEST:
                raise CheckpointError(f"{file}: {what}: expected names of files in this folder, got {name!r:.80}")
    if path.name.isdecimal() and int(path.name) != manifest.iteration:
        raise CheckpointError(f"{file}: iteration: expected {int(path.name)} as its folder, got {manifest.iteration}")
    needed = {STATE, *(each for name in manifest.policies for each in _files(name))}
    if lacks := sorted(needed - manifest.sha256.keys()):
        raise CheckpointError(f"{file}: sha256: expected a digest of {lacks[0]}, got none")
    if more := sorted(manifest.sha256.keys() - needed - {REPLAY}):
        raise CheckpointError(f"{file}: sha256: expected digests of this checkpoint's files, got one of {more[0]}")
    return manifest


def check_run(path: Path, manifest: Manifest) -> None:
    """Checks that a checkpoint is of the run whose folder it is in, if any; CheckpointError names what differs."""
    run = path.resolve().parent.parent / CONFIG
    if path.resolve().parent.name != FOLDER or not run.exists():
        return
    recorded = read_json(run)
    for name in OF_RUN:  # a version before may have had no such setting
        if name in recorded and name in manifest.config and recorded[name] != manifest.config[name]:
            expected, got = recorded[name], manifest.config[name]
            raise CheckpointError(
                f"{path / 'manifest.json'}: {name}: expected {expected!r:.80} as in {run}, got {got!r:.80}"
            )


def _files(name: str) -> list[str]:
    """Files of a policy."""
    return [f"policy-{name}{suffix}" for suffix in SUFFIXES]


def find(path: Path) -> Path:
    """The checkpoint folder that `path` means: itself, the last one of a run, or with "zoo:NAME" that of a model.

    Raises:
        CheckpointError: There is none.
    """
    if str(path).startswith(ZOO):
        from trainers import zoo  # it stands on this file

        return zoo.folder(str(path).removeprefix(ZOO))
    if (path / "manifest.json").exists():
        return path
    for folder in (path, path / FOLDER):
        if found := every(folder):
            return found[-1]
    if (path / LEAGUE).is_file():
        raise CheckpointError(
            f"{path}: expected a checkpoint, or a run with checkpoints, got a league's run; "
            f"gpu-envs league render {path}, or gpu-envs watch {path}, shows its policies"
        )
    hint = f"gpu-envs train ID --out {path} makes one"
    raise CheckpointError(f"{path}: expected a checkpoint, or a run with checkpoints, got neither; {hint}")


def best(folder: Path) -> Path | None:
    """The checkpoint with the highest score, the later one of equals; None if none was scored.

    One that cannot be read does not count: it must not end the run that goes on beside it.
    """
    scores = []
    for path in every(folder):
        with contextlib.suppress(CheckpointError):
            scores.append((read_manifest(path).score, path))
    return max(((score, path) for score, path in scores if score is not None), default=(None, None))[1]


def every(folder: Path) -> list[Path]:
    """Complete checkpoints of a folder, oldest first."""
    return sorted(path for path in folder.glob("[0-9]*") if path.name.isdecimal() and (path / "manifest.json").exists())


def _outdated(folder: Path, keep_last: int) -> list[Path]:
    top = best(folder)
    return [path for path in every(folder)[: -max(keep_last, 1)] if path != top]
