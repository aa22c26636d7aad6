"""Read and write tensors and JSON files: atomic writes, checked reads, no pickle."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.paths import utf8_name
from gpu_envs.utils.settings import check_settings

T = TypeVar("T")
_hints = functools.cache(get_type_hints)
MAX_JSON_DEPTH = 64
"""Largest nesting depth of lists and objects in a JSON file."""


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a JSON file atomically, see `write_text`."""
    write_text(path, json.dumps(data, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: readers see the old content or the new content, never a part."""
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
    """Return the content of a file; raise CheckpointError if it cannot be read."""
    with _reading(path):
        return path.read_bytes()


def read_json(path: Path, finite: bool = True) -> dict[str, Any]:
    """Return the JSON object in a file, see `parse_json`; raise CheckpointError if the file is missing or invalid."""
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: expected JSON in UTF-8, got {error}") from error
    data = parse_json(text, str(path), finite)
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(data).__name__}")
    return data


def parse_json(text: str, source: str, finite: bool = True) -> Any:
    """Parse JSON from an untrusted source.

    Args:
        text: The JSON.
        source: Prefix of error messages, such as the file name.
        finite: Refuse NaN and infinities, which Python writes although JSON does not have them.

    Raises:
        CheckpointError: The text is not JSON, is nested deeper than `MAX_JSON_DEPTH`, or has an integer beyond 64 bits.
    """

    def integer(digits: str) -> int:
        if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
            raise ValueError(f"a number of {len(digits)} characters, {digits:.20}")
        return int(digits)

    def real(digits: str) -> float:
        if finite and not math.isfinite(float(digits)):
            raise ValueError(f"{digits:.20}, which is not a finite number")
        return float(digits)

    try:
        data = json.loads(text, parse_int=integer, parse_float=real, parse_constant=real)
    except ValueError as error:
        raise CheckpointError(f"{source}: expected JSON, got {error}") from error
    except RecursionError:
        raise CheckpointError(f"{source}: expected JSON of at most {MAX_JSON_DEPTH} levels, got more") from None
    level = [data] if isinstance(data, dict | list) else []
    for _ in range(MAX_JSON_DEPTH):
        containers = [outer.values() if isinstance(outer, dict) else outer for outer in level]
        level = [item for container in containers for item in container if isinstance(item, dict | list)]
        if not level:
            return data
    raise CheckpointError(f"{source}: expected JSON of at most {MAX_JSON_DEPTH} levels, got more")


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise CheckpointError if a file cannot be read, or is a pipe or a device, which could block its reader."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise CheckpointError(f"{path}: expected a file, got a pipe or a device")
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: the path holds a NUL
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{path}: expected a readable file, got {reason}") from error


def wrong_format(file: Path | str, expected: str, actual: object) -> CheckpointError:
    """Return the error about a file of another format."""
    return CheckpointError(
        f"{file}: expected format {expected!r}, got {actual!r:.80}; use the version of gpu-envs that wrote the file"
    )


def check_fields(source: str, data: Any, hints: Mapping[str, Any], optional: Collection[str] = ()) -> dict[str, Any]:
    """Check that a JSON object has exactly the fields of `hints` (name -> type), except missing `optional` ones.

    Returns:
        The object itself.

    Raises:
        CheckpointError: A field is missing, unexpected or of another type. The message names the first such field.
    """
    if not isinstance(data, dict):
        raise CheckpointError(f"{source}: expected a JSON object, got {type(data).__name__}")
    for name in (*hints, *data):
        if name not in data and name not in optional:
            raise CheckpointError(f"{source}: expected a field {name!r}, got none")
        if name not in hints:
            raise CheckpointError(f"{source}: expected the fields {', '.join(sorted(hints))}, got also {name!r:.80}")
    for name, hint in hints.items():
        if name in data and not _fits(data[name], hint):
            type_name = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
            raise CheckpointError(f"{source}: {name}: expected {type_name}, got {data[name]!r:.80}")
    return data


def read_record(kind: type[T], source: str, data: Any, optional: Collection[str] = ()) -> T:
    """Build a dataclass from a JSON object, checked by `check_fields` and `check_settings`.

    Args:
        kind: The dataclass.
        source: Prefix of error messages, such as the file name.
        data: The JSON object.
        optional: Fields that may be missing.

    Raises:
        CheckpointError: A field is missing, unexpected, of another type or out of range. The message names the first
            one.
    """
    hints = _hints(kind)
    fields = check_fields(source, data, hints, optional)
    record = kind(**{name: tuple(v) if get_origin(hints[name]) is tuple else v for name, v in fields.items()})
    try:
        check_settings(record, f"{source}: ")
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    return record


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a JSON value matches a type; lists match tuples, and integers match floats."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind is Any:
        return True
    if kind in (UnionType, Union):
        return any(_fits(value, item) for item in inner)
    if kind in (list, tuple):
        return isinstance(value, list | tuple) and all(_fits(item, inner[0]) for item in value)
    if kind is dict:
        return isinstance(value, dict) and all(_fits(item, inner[1]) for item in value.values())
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    return isinstance(value, kind)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write tensors of any shapes to a safetensors file and flush it to disk."""
    # clone(): safetensors refuses tensors that share memory, such as views of one buffer
    try:
        save_file({name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:  # raised for file system errors, such as a full disk
        raise OSError(f"{path}: cannot be written ({error})") from error
    with path.open("rb") as file:
        os.fsync(file.fileno())


def read_tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Return the tensors, of any shapes, of a safetensors file; raise CheckpointError if it is missing or damaged."""
    try:
        with _reading(path), utf8_name(path) as name:
            return load_file(name, device=str(device))
    except SafetensorError as error:
        raise CheckpointError(f"{path}: expected safetensors, got a damaged file ({error})") from error


def check_tensors(source: str, tensors: Mapping[str, Any], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that `like` names, after a check of their shapes and dtypes.

    Raises:
        CheckpointError: A tensor is missing or has another shape or dtype. The message names the first one.
    """
    for name, tensor in like.items():
        value = tensors.get(name)
        if not isinstance(value, Tensor) or value.shape != tensor.shape:
            actual = tuple(value.shape) if isinstance(value, Tensor) else "nothing"
            raise CheckpointError(f"{source}: {name}: expected shape {tuple(tensor.shape)}, got {actual}")
        if value.dtype != tensor.dtype:
            raise CheckpointError(f"{source}: {name}: expected {tensor.dtype}, got {value.dtype}")
    return {name: tensors[name] for name in like}


def check_finite(source: str, tensors: Mapping[str, Any]) -> None:
    """Raise CheckpointError, with the name of the tensor, if a tensor holds NaN or infinity."""
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor) and tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{source}: {name}: expected finite numbers, got NaN or infinity")


def sha256(path: Path) -> str:
    """Return the SHA-256 digest of a file in hex; raise CheckpointError if the file is missing."""
    with _reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_digests(folder: Path, digests: Mapping[str, str | None]) -> None:
    """Raise CheckpointError, with the name of the file, if a file is missing or has another SHA-256 digest."""
    for file, expected in digests.items():
        if (digest := sha256(folder / file)) != expected:
            raise CheckpointError(f"{folder / file}: expected sha256 {str(expected)[:12]}, got {digest[:12]} (damaged)")


def fsync_folder(folder: Path) -> None:
    """Make renames in a folder durable (Linux)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
