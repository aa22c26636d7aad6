"""What a league's run keeps, row by row: what goes in, what comes out, and how it is spelled in the database."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, GpuEnvsError
from league.database import COLUMNS
from trainers.files import check_fields, parse_json, sha256

MAX_EPISODES = 2**48
"""A count of more episodes is damaged; sums of smaller ones are exact in float64 and int64."""
CONFIG: dict[str, Any] = {
    **{"algorithm": str, "device": str, "payoffs": str, "meta_solver": str, "anytime": bool},
    **{"seed": int, "iterations": int, "train": dict[str, Any]},
}
"""Fields of a run's configuration that are read without its algorithm."""
SUMMARY: dict[str, Any] = {
    **{"meta_strategy": list[list[float]], "joint": list[Any] | None, "policies": int | dict[str, int]},
    **dict.fromkeys(("nash_conv", "exploitability", "best_so_far", "previous_nash_conv_lower"), float | None),
    **{"best_iteration": int | None, "seconds": float, "episodes": int | dict[str, int], "players": int},
    **dict.fromkeys(("return", "score"), dict[str, float | None]),
    **{"matches": dict[str, dict[str, int]], "changes": list[str]},
}
"""Fields of an iteration's summary that the library reads."""


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


def read_json(text: str, where: str, hints: Any, required: Collection[str] = ()) -> Any:
    """Read a JSON value of a run.

    Args:
        text: JSON.
        where: Place of the text for messages.
        hints: Type of the value; or types by name of the fields of an object, which may have other fields too.
        required: Fields that have to be there.

    Raises:
        CheckpointError: It is no JSON, is nested too deeply, has another type, or an integer of more than 64 bits.
    """
    value = parse_json(text, where, finite=False)  # summaries of iterations may hold NaN
    if isinstance(hints, Mapping):
        fields = check_fields(where, {"value": value}, {"value": dict[str, Any]})["value"]
        known = {name: each for name, each in fields.items() if name in hints}
        check_fields(where, known, hints, hints.keys() - set(required))
    else:
        check_fields(where, {"value": value}, {"value": hints})
    return value


def check_rows(file: Path, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Check the types of columns; CheckpointError names the first value of another type than its column's."""
    for place, column in enumerate(columns):
        allowed = COLUMNS[table][column]
        if not {type(row[place]) for row in rows} <= allowed:
            bad = next(row[place] for row in rows if type(row[place]) not in allowed)
            expected = " or ".join(sorted(each.__name__ for each in allowed))
            raise CheckpointError(f"{file}: {table}.{column}: expected {expected}, got {bad!r:.80} (damaged)")


def check_strategy(where: str, row: Mapping[str, Any], sizes: Sequence[int]) -> None:
    """Check that a summary tells a meta-strategy of at most so many policies by seat; else raise CheckpointError."""
    marginals, joint = row["meta_strategy"], row.get("joint")
    lengths = [len(each) for each in marginals]
    if len(lengths) != len(sizes) or not all(0 < length <= size for length, size in zip(lengths, sizes, strict=True)):
        raise CheckpointError(f"{where}: meta_strategy: expected up to {list(sizes)} policies, got {lengths!r:.80}")
    try:
        given = [torch.tensor(each, dtype=torch.float64) for each in marginals]
        given += [] if joint is None else [torch.tensor(joint, dtype=torch.float64)]
        fits = all(bool((each >= 0).all()) and abs(float(each.sum()) - 1) < 1e-3 for each in given)
        fits &= joint is None or [*given[-1].shape] == lengths
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise CheckpointError(f"{where}: meta_strategy: expected probabilities that sum to 1 for every seat")


def finite(value: Any) -> Any:
    """Replace numbers that are not finite, which JSON does not have, by None; names of fields become text."""
    if isinstance(value, dict):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    """The indices by seat that `key_of` wrote; ValueError where it is something else."""
    if not re.fullmatch(r"-?\d{1,9}(,-?\d{1,9})*", key, re.ASCII):
        raise ValueError(f"expected indices, got {key!r:.80}")
    return tuple(map(int, key.split(",")))


def state_file(number: int) -> str:
    """Name of the file with the tensors of a state."""
    return f"{number:08d}.safetensors"
