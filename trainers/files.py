"""Tensors and JSON on disk: written whole, read with clear errors, never pickled."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError


def check_folder(path: Path) -> None:
    """Sees, before long work, that files can be written in a folder or that it can be made; raises ConfigError."""
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise ConfigError(f"{path}: expected a folder that can be made, got the file {there}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"{path}: expected a folder that can be made, got {there}, which cannot be written")


def check_file(path: Path, option: str = "--out") -> None:
    """Sees, before long work, that a file can be written; raises ConfigError, which names the option."""
    if path.is_dir():
        raise ConfigError(f"{option} {path}: expected a file, got a folder")
    check_folder(path.parent)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Writes JSON atomically, see `write_text`."""
    write_text(path, json.dumps(data, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a file atomically: readers see the old one or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object; raises CheckpointError if it is missing or is something else."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{path}: expected a readable file, got {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: expected JSON, got {error}") from error
    data = parse_json(text, str(path))
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(data).__name__}")
    return data


def parse_json(text: str, where: str) -> Any:
    """Parse JSON; raise CheckpointError if it is something else, or is nested too deeply."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise CheckpointError(f"{where}: expected JSON, got {error}") from error
    except RecursionError:
        raise CheckpointError(f"{where}: expected JSON, got values nested too deeply") from None


def check_fields(where: str, data: Any, hints: Mapping[str, Any], optional: Collection[str] = ()) -> dict[str, Any]:
    """Checks that a JSON object has exactly the fields of `hints` (name -> type), or not all `optional`; returns it.

    Raises:
        CheckpointError: Naming the first field that is missing, is not expected or has another type.
    """
    if not isinstance(data, dict):
        raise CheckpointError(f"{where}: expected a JSON object, got {type(data).__name__}")
    for name in (*hints, *data):
        if name not in data and name not in optional:
            raise CheckpointError(f"{where}: expected a field {name!r}, got none")
        if name not in hints:
            raise CheckpointError(f"{where}: expected the fields {', '.join(sorted(hints))}, got also {name!r}")
    for name, hint in hints.items():
        if name in data and not _fits(data[name], hint):
            wanted = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
            raise CheckpointError(f"{where}: {name}: expected {wanted}, got {data[name]!r:.80}")
    return data


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value read from JSON is of a type, where lists stand for tuples and integers for floats too."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind is Any:
        return True
    if kind in (UnionType, Union):
        return any(_fits(value, each) for each in inner)
    if kind in (list, tuple):
        return isinstance(value, list) and all(_fits(each, inner[0]) for each in value)
    if kind is dict:
        return isinstance(value, dict) and all(_fits(each, inner[1]) for each in value.values())
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    return isinstance(value, kind)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes copies of tensors of any shapes to a safetensors file and flushes it to disk."""
    # clone(): safetensors refuses tensors that share memory, as views of one buffer do
    try:
        save_file({name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:  # its word for what the file system refuses, such as a full disk
        raise OSError(f"{path}: cannot be written ({error})") from error
    with path.open("rb") as file:
        os.fsync(file.fileno())


def read_tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Reads a safetensors file, tensors of any shapes by name; CheckpointError if it is missing or damaged."""
    try:
        return load_file(path, device=str(device))
    except OSError as error:
        raise CheckpointError(f"{path}: expected a readable file, got {error.strerror or error}") from error
    except SafetensorError as error:
        raise CheckpointError(f"{path}: expected safetensors, got a damaged file ({error})") from error


def check_tensors(where: str, got: Mapping[str, Any], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `got` that `like` has; CheckpointError names the first that is missing or has another shape."""
    for name, tensor in like.items():
        each = got.get(name)
        if not isinstance(each, Tensor) or each.shape != tensor.shape:
            found = tuple(each.shape) if isinstance(each, Tensor) else "nothing"
            raise CheckpointError(f"{where}: {name}: expected shape {tuple(tensor.shape)}, got {found}")
    return {name: got[name] for name in like}


def sha256(path: Path) -> str:
    """Hex digest of a file; raises CheckpointError if it is missing."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: expected a readable file, got {error.strerror}") from error


def check_digests(folder: Path, digests: Mapping[str, str | None]) -> None:
    """Checks files by their sha256; CheckpointError names the first that is missing or has another."""
    for file, expected in digests.items():
        if (digest := sha256(folder / file)) != expected:
            raise CheckpointError(f"{folder / file}: expected sha256 {str(expected)[:12]}, got {digest[:12]} (damaged)")


def fsync_folder(folder: Path) -> None:
    """Makes renames in a folder durable (Linux)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
