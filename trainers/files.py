"""Tensors and JSON on disk: written whole, read with clear errors, never pickled."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from gpu_envs.errors import CheckpointError


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Writes JSON atomically: readers see the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(data, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object; raises CheckpointError if it is missing or is something else."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: expected a readable file, got {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: expected JSON, got {error}") from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(data).__name__}")
    return data


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes copies of tensors to a safetensors file and flushes it to disk."""
    # clone(): safetensors refuses tensors that share memory, as views of one buffer do
    save_file({name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}, path)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def read_tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Reads a safetensors file; raises CheckpointError if it is missing or damaged."""
    try:
        return load_file(path, device=str(device))
    except OSError as error:
        raise CheckpointError(f"{path}: expected a readable file, got {error.strerror or error}") from error
    except SafetensorError as error:
        raise CheckpointError(f"{path}: expected safetensors, got a damaged file ({error})") from error


def sha256(path: Path) -> str:
    """Hex digest of a file; raises CheckpointError if it is missing."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: expected a readable file, got {error.strerror}") from error
