"""The model zoo: trained policies that come with the library, each with the command that made it and its evaluation.

An entry is a checkpoint without what a continuation needs, so `gpu-envs eval`, `gpu-envs export` and
`trainers.load_policy` take its folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError
from trainers import checkpoint
from trainers.checkpoint import Checkpoint
from trainers.files import read_json, write_json

FOLDER = Path(__file__).parent / "models"  # of the models that come with the package
MAX_BYTES = 300_000
"""Of an entry."""


def names() -> list[str]:
    """All entries."""
    return sorted(path.name for path in FOLDER.iterdir() if (path / "about.json").exists()) if FOLDER.exists() else []


def folder(name: str) -> Path:
    """The folder of an entry; ConfigError names all entries where there is none of this name."""
    if name not in names():
        raise ConfigError(f"model zoo: expected one of {', '.join(names())}, got {name!r}")
    return FOLDER / name


def load(name: str) -> Checkpoint:
    """An entry as a checkpoint: `load(name).policy("agent")` is a policy, `.config` the run's configuration."""
    return checkpoint.load(folder(name))


def about(name: str) -> dict[str, Any]:
    """How an entry was made and what it reached.

    "command", "commit", "goals" (each says "of" what, by which policies "playing", most probable actions or not, and
    what was "reached": mean over "episodes" and half of the 95 % interval), "others" (the same of random policies).
    """
    return read_json(folder(name) / "about.json")


def put(name: str, saved: Checkpoint, about: dict[str, Any]) -> Path:
    """Makes an entry of a run's checkpoint in place of an older one of its name; ConfigError where it is too large."""
    policies = {policy: saved.policy(policy) for policy in saved.policies}
    target, fresh = FOLDER / name, FOLDER / f".{name}"
    shutil.rmtree(fresh, ignore_errors=True)
    written = checkpoint.save(fresh, saved.iteration, saved.steps, saved.config, {}, policies, saved.score)
    write_json(written / "about.json", about)
    size = sum(file.stat().st_size for file in written.iterdir())
    if size > MAX_BYTES:
        shutil.rmtree(fresh)
        raise ConfigError(
            f"model zoo: {name} has {size:,} bytes, at most {MAX_BYTES:,} are allowed; train smaller nets"
        )
    shutil.rmtree(target, ignore_errors=True)
    written.rename(target)
    shutil.rmtree(fresh)
    return target
