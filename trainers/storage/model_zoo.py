"""The model zoo: trained policies of the library, each with its training command and its evaluation.

An entry is a checkpoint without the state for resuming, so `gpu-envs eval`, `gpu-envs export` and
`trainers.load_policy` accept its folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError
from trainers.base.serialization import read_json, write_json
from trainers.storage import checkpoint
from trainers.storage.checkpoint import Checkpoint, zoo_folder

MAX_BYTES = 300_000
"""Largest size of an entry [bytes]."""


def load(name: str) -> Checkpoint:
    """Load an entry as a checkpoint: `load(name).policy("agent")` is a policy, `.config` the run's configuration."""
    return checkpoint.load(zoo_folder(name))


def about(name: str) -> dict[str, Any]:
    """Return training command and evaluation of an entry.

    The keys are "command"; "commit" of the training; "episodes" of a matchup; "greedy", whether actions were the most
    probable ones; "env", settings of the environment that differed from the training's; and "matchups". A matchup
    has "policies", their source ("trained", "random", or "other" for scripted ones) by name, and "results" by name:
    mean and half of the 95 % interval.
    """
    return read_json(zoo_folder(name) / "about.json")


def put(name: str, saved: Checkpoint, about: dict[str, Any]) -> Path:
    """Create or replace an entry from a checkpoint; raise ConfigError if it is too large."""
    policies = {policy: saved.policy(policy) for policy in saved.policies}
    target, fresh = checkpoint.ZOO_FOLDER / name, checkpoint.ZOO_FOLDER / f".{name}"
    shutil.rmtree(fresh, ignore_errors=True)
    written = checkpoint.save(fresh, saved.iteration, saved.steps, saved.config, {}, policies, saved.score)
    write_json(written / "about.json", about)
    size = sum(file.stat().st_size for file in written.iterdir())
    if size > MAX_BYTES:
        shutil.rmtree(fresh)
        raise ConfigError(
            f"model zoo: {name} has {size:,} bytes, at most {MAX_BYTES:,} are allowed; train smaller networks"
        )
    shutil.rmtree(target, ignore_errors=True)
    written.rename(target)
    shutil.rmtree(fresh)
    return target
