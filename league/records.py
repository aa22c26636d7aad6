"""What a league's run keeps, row by row: what goes in, what comes out, and how it is spelled in the database."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from gpu_envs.errors import GpuEnvsError
from trainers.files import sha256


class Saves(Protocol):
    """What can be put into a population: it writes files `path` with suffixes of its own, which its kind reads."""

    def save(self, path: Path) -> None:
        """Writes the files."""
        ...


class Counted(Protocol):
    """What episodes gave, by matchup; arrays or tensors."""

    @property
    def count(self) -> Any:
        """(K,) episodes."""
        ...

    @property
    def total(self) -> Any:
        """(K, S) sum of returns."""
        ...

    @property
    def square(self) -> Any:
        """(K, S) sum of squared returns."""
        ...

    @property
    def score(self) -> Any:
        """(K, S) sum of scores: 1 for a win, 1/2 for a draw."""
        ...


@dataclass(frozen=True)
class Cells:
    """All that was counted so far, K matchups in the order they first came; `Counted`."""

    matchups: np.ndarray
    """(K, S) int64, a policy's index by seat."""
    count: np.ndarray
    """(K,) int64."""
    total: np.ndarray
    """(K, S) float64, as are the next two."""
    square: np.ndarray
    """(K, S) float64, sum of squared returns."""
    score: np.ndarray
    """(K, S) float64, sum of scores: 1 for a win, 1/2 for a draw."""


@dataclass(frozen=True)
class Met:
    """Who met whom while learning."""

    iteration: int
    """In which they met."""
    role: str
    """Whoever asked for the matches."""
    matchup: tuple[int, ...]
    """A policy's index by seat, -1 for who learned."""
    count: int = 1
    """How often."""


def publish(file: Path, final: Path) -> str:
    """Flushes a file to disk and gives it its name; returns its sha256."""
    with file.open("rb") as written:
        os.fsync(written.fileno())
    digest = sha256(file)
    file.replace(final)
    return digest


def to_json(value: Any) -> str:
    """A line of JSON; numbers and arrays of numpy and torch as Python's, see `plain`."""
    return json.dumps(value, default=plain)


def plain(value: Any) -> Any:
    """Numbers of numpy and torch, and their arrays, as Python's."""
    if isinstance(value, np.generic | np.ndarray | Tensor):
        return value.tolist()
    raise TypeError(f"expected what JSON can hold, got {type(value).__name__}")


def host(values: Any) -> np.ndarray:
    """An array on the host of the same shape, without a copy where it is there already."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def array(values: Any, name: str, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """A copy on the host of this dtype; GpuEnvsError, naming it, where it is not of this shape."""
    array = host(values)
    if array.shape != shape:
        raise GpuEnvsError(f"{name}: expected shape {shape}, got {array.shape}")
    return array.astype(dtype)


def key_of(matchup: Sequence[int]) -> str:
    """How the database names a matchup, a policy's index by seat."""
    return ",".join(map(str, matchup))


def players_of(key: str) -> tuple[int, ...]:
    """The indices by seat that `key_of` wrote."""
    return tuple(map(int, key.split(",")))


def state_file(number: int) -> str:
    """Name of the file with the tensors of a state."""
    return f"{number:08d}.safetensors"
