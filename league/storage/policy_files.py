"""Files of policies and learner states: names, complete writing, and removal of files without a record."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from league.policies.kinds import SupportsSave
from trainers.base.serialization import sha256, write_tensors

__all__ = [
    "PARTIAL_PREFIX",
    "policy_id",
    "publish",
    "remove_orphans",
    "state_file_name",
    "write_partial_state",
    "write_policy",
]

PARTIAL_PREFIX = ".writing-"
"""Prefix of the names of incomplete files."""


def policy_id(number: int, role: str) -> str:
    """Return the name of a policy's files, without suffix."""
    return f"{number:05d}-{re.sub('[^A-Za-z0-9_-]+', '_', role)}"


def state_file_name(number: int) -> str:
    """Return the name of the file with the tensors of a state."""
    return f"{number:08d}.safetensors"


def publish(file: Path, final: Path) -> str:
    """Flush a file to disk, rename it to its final name, and return its sha256."""
    with file.open("rb") as written:
        os.fsync(written.fileno())
    digest = sha256(file)
    file.replace(final)
    return digest


def write_policy(folder: Path, policy_id: str, policy: SupportsSave) -> dict[str, str]:
    """Write the files of a policy and return their sha256 by name; the dictionary is empty if it wrote no file."""
    policy.save(folder / f"{PARTIAL_PREFIX}{policy_id}")
    digests = {}
    for file in sorted(folder.glob(f"{PARTIAL_PREFIX}{policy_id}.*")):
        final = file.name.removeprefix(PARTIAL_PREFIX)
        digests[final] = publish(file, folder / final)
    return digests


def write_partial_state(folder: Path, state: Mapping[str, Any]) -> Path:
    """Write the tensors of a state to a partial file, which `publish` renames."""
    file = folder / f"{PARTIAL_PREFIX}state.safetensors"
    write_tensors(file, {key: value for key, value in state.items() if isinstance(value, Tensor)})
    return file


def remove_orphans(folder: Path, recorded: Collection[str]) -> None:
    """Remove files of runs that no record names; other files in the folder stay."""
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        # policies may add other names; safetensors writes to .tmpXXXXXX first
        of_run = PARTIAL_PREFIX in file.name or file.name[:5].isdigit() or file.name.startswith(".tmp")
        if of_run and file.name not in recorded and file.is_file():
            file.unlink()
