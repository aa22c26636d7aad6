"""Tensors and JSON on disk: written whole, read with clear errors, never pickled."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.settings import check_settings

T = TypeVar("T")
DEEPEST = 64
"""Levels of lists and objects that a JSON file may have."""


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


def read_bytes(path: Path) -> bytes:
    """Reads a file; raises CheckpointError if it cannot be read."""
    _check_regular(path)
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: the path holds a NUL
        raise CheckpointError(f"{path}: expected a readable file, got {_reason(error)}") from error


def read_json(path: Path, finite: bool = True) -> dict[str, Any]:
    """Reads a JSON object, see `parse_json`; raises CheckpointError if it is missing or is something else."""
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: expected JSON in UTF-8, got {error}") from error
    data = parse_json(text, str(path), finite)
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(data).__name__}")
    return data


def parse_json(text: str, where: str, finite: bool = True) -> Any:
    """Parses JSON that may be damaged.

    Args:
        text: The JSON.
        where: Begins messages, such as the name of the file.
        finite: Refuse NaN and infinities, which JSON does not have but Python writes.

    Raises:
        CheckpointError: It is no JSON, is nested deeper than `DEEPEST`, or holds a number that 64 bits cannot.
    """

    def whole(digits: str) -> int:
        if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
            raise ValueError(f"a number of {len(digits)} characters, {digits:.20}")
        return int(digits)

    def real(digits: str) -> float:
        if finite and not math.isfinite(float(digits)):
            raise ValueError(f"{digits:.20}, which is not a finite number")
        return float(digits)

    try:
        data = json.loads(text, parse_int=whole, parse_float=real, parse_constant=real)
    except ValueError as error:
        raise CheckpointError(f"{where}: expected JSON, got {error}") from error
    except RecursionError:
        raise CheckpointError(f"{where}: expected JSON of at most {DEEPEST} levels, got more") from None
    level = [data]
    for _ in range(DEEPEST):
        level = [each for outer in level if isinstance(outer, dict | list) for each in _inner(outer)]
        if not level:
            return data
    raise CheckpointError(f"{where}: expected JSON of at most {DEEPEST} levels, got more")


def _check_regular(path: Path) -> None:
    """Refuse a pipe or a device, which could keep its reader waiting for ever."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise CheckpointError(f"{path}: expected a file, got a pipe or a device")


def _inner(outer: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return outer.values() if isinstance(outer, dict) else outer


def _reason(error: OSError | ValueError) -> str:
    """Why a file cannot be used, in one line."""
    return str(getattr(error, "strerror", None) or error)


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
            raise CheckpointError(f"{where}: expected the fields {', '.join(sorted(hints))}, got also {name!r:.80}")
    for name, hint in hints.items():
        if name in data and not _fits(data[name], hint):
            wanted = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
            raise CheckpointError(f"{where}: {name}: expected {wanted}, got {data[name]!r:.80}")
    return data


def read_record(kind: type[T], where: str, data: Any, optional: Collection[str] = ()) -> T:
    """Makes a dataclass of a JSON object, whose fields are checked as `check_fields` and `check_settings` do.

    Args:
        kind: The dataclass.
        where: Begins messages, such as the name of the file.
        data: The JSON object.
        optional: Fields that may be missing.

    Raises:
        CheckpointError: Naming the first field that is missing, is not expected or has a type or value not allowed.
    """
    hints = _hints(kind)
    given = check_fields(where, data, hints, optional)
    record = kind(**{name: tuple(each) if get_origin(hints[name]) is tuple else each for name, each in given.items()})
    try:
        check_settings(record, f"{where}: ")
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    return record


@functools.cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


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
    _check_regular(path)
    try:
        return load_file(path, device=str(device))
    except (OSError, ValueError) as error:  # ValueError: the path holds a NUL
        raise CheckpointError(f"{path}: expected a readable file, got {_reason(error)}") from error
    except SafetensorError as error:
        raise CheckpointError(f"{path}: expected safetensors, got a damaged file ({error})") from error


def check_tensors(where: str, got: Mapping[str, Any], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors of `got` that `like` has.

    Raises:
        CheckpointError: Naming the first tensor that is missing or has another shape or dtype.
    """
    for name, tensor in like.items():
        each = got.get(name)
        if not isinstance(each, Tensor) or each.shape != tensor.shape:
            found = tuple(each.shape) if isinstance(each, Tensor) else "nothing"
            raise CheckpointError(f"{where}: {name}: expected shape {tuple(tensor.shape)}, got {found}")
        if each.dtype != tensor.dtype:
            raise CheckpointError(f"{where}: {name}: expected {tensor.dtype}, got {each.dtype}")
    return {name: got[name] for name in like}


def check_finite(where: str, tensors: Mapping[str, Any]) -> None:
    """Checks that no tensor holds NaN or infinity; CheckpointError names the first that does."""
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor) and tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{where}: {name}: expected finite numbers, got NaN or infinity")


def sha256(path: Path) -> str:
    """Hex digest of a file; raises CheckpointError if it is missing."""
    _check_regular(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: expected a readable file, got {_reason(error)}") from error


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
