"""Records of a league's run: values of database rows, their checks, and their text form."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, GpuEnvsError
from league.storage.database import COLUMNS
from trainers.base.serialization import check_fields, parse_json

MAX_EPISODES = 2**48
"""Largest valid number of episodes; sums of smaller numbers are exact in float64 and int64."""
CONFIG_FIELDS: dict[str, Any] = {
    **{"algorithm": str, "device": str, "payoff_estimation": str, "meta_solver": str, "keep_best_strategy": bool},
    **{"seed": int, "iterations": int, "train_overrides": dict[str, Any], "max_payoff_cells": int | None},
}
"""Fields of a run's configuration that all algorithms share."""
SUMMARY_FIELDS: dict[str, Any] = {
    **{"meta_strategy": list[list[float]], "joint": list[Any] | None, "policies": int | dict[str, int]},
    **dict.fromkeys(("nash_conv", "exploitability", "best_nash_conv", "previous_nash_conv_lower_bound"), float | None),
    **dict.fromkeys(("ce_gap", "ce_gap_lower_bound", "previous_ce_gap_lower_bound"), float | None),
    **{"best_iteration": int | None, "seconds": float, "episodes": int | dict[str, int], "players": int},
    **dict.fromkeys(("return", "score"), dict[str, float | None]),
    **{"matches": dict[str, dict[str, int]], "changes": list[str]},
}
"""Fields of an iteration's summary that the library reads."""


@dataclass(frozen=True)
class PayoffCells:
    """Payoff cells of a run: sums of results of K matchups, in the order of their first episode."""

    matchups: np.ndarray
    """(K, S) int64, index of each seat's policy."""
    count: np.ndarray
    """(K,) int64, number of episodes."""
    total: np.ndarray
    """(K, S) float64, sum of returns."""
    square: np.ndarray
    """(K, S) float64, sum of squared returns."""
    score: np.ndarray
    """(K, S) float64, sum of scores: 1 for a win, 1/2 for a draw."""


@dataclass(frozen=True)
class MatchCounts:
    """Number of training episodes of one matchup."""

    iteration: int
    """Iteration of the training."""
    role: str
    """Role that was trained."""
    matchup: tuple[int, ...]
    """Index of each seat's policy, -1 for the learner."""
    count: int = 1
    """Number of episodes."""


def to_json(value: Any) -> str:
    """Return a value as one line of JSON; numbers and arrays of NumPy and PyTorch become Python's."""
    return json.dumps(value, default=to_plain)


def read_json(text: str, context: str, hints: Any, required: Collection[str] = ()) -> Any:
    """Read a JSON value of a run.

    Args:
        text: JSON text.
        context: Place of the text for messages.
        hints: Type of the value; or, for an object, types of known fields by name. Other fields are allowed.
        required: Required fields.

    Raises:
        CheckpointError: The text is not valid JSON, is nested too deeply, has another type, or holds an integer of
            more than 64 bits.
    """
    value = parse_json(text, context, finite=False)  # summaries of iterations may contain NaN
    if isinstance(hints, Mapping):
        fields = check_fields(context, {"value": value}, {"value": dict[str, Any]})["value"]
        selected = {name: entry for name, entry in fields.items() if name in hints}
        check_fields(context, selected, hints, hints.keys() - set(required))
    else:
        check_fields(context, {"value": value}, {"value": hints})
    return value


def check_rows(file: Path, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Check the types of columns; raise CheckpointError for the first value of a wrong type."""
    for index, column in enumerate(columns):
        allowed = COLUMNS[table][column]
        if not {type(row[index]) for row in rows} <= allowed:
            bad = next(row[index] for row in rows if type(row[index]) not in allowed)
            expected = " or ".join(sorted(kind.__name__ for kind in allowed))
            raise CheckpointError(f"{file}: {table}.{column}: expected {expected}, got {bad!r:.80} (damaged)")


def check_strategy(context: str, row: Mapping[str, Any], sizes: Sequence[int]) -> None:
    """Check that a summary has a meta-strategy over at most `sizes` policies per seat; else raise CheckpointError."""
    marginals, joint = row["meta_strategy"], row.get("joint")
    lengths = [len(weights) for weights in marginals]
    if len(lengths) != len(sizes) or not all(0 < length <= size for length, size in zip(lengths, sizes, strict=True)):
        raise CheckpointError(f"{context}: meta_strategy: expected up to {list(sizes)} policies, got {lengths!r:.80}")
    try:
        tensors = [torch.tensor(weights, dtype=torch.float64) for weights in marginals]
        tensors += [] if joint is None else [torch.tensor(joint, dtype=torch.float64)]
        fits = all(bool((weights >= 0).all()) and abs(float(weights.sum()) - 1) < 1e-3 for weights in tensors)
        fits &= joint is None or [*tensors[-1].shape] == lengths
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise CheckpointError(f"{context}: meta_strategy: expected probabilities that sum to 1 for every seat")


def finite(value: Any) -> Any:
    """Replace numbers that are not finite by None, which JSON can represent; field names become text."""
    if isinstance(value, dict):
        return {str(key): finite(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [finite(element) for element in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_plain(value: Any) -> Any:
    """Convert numbers and arrays of NumPy and PyTorch to Python's."""
    if isinstance(value, np.generic | np.ndarray | Tensor):
        return value.tolist()
    raise TypeError(f"expected a JSON value, got {type(value).__name__}")


def to_host(values: Any) -> np.ndarray:
    """Return an array of the same shape on the host, without a copy if the values are on the host already."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def checked_array(values: Any, name: str, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Return a copy on the host with the given dtype; raise GpuEnvsError if the shape differs."""
    array = to_host(values)
    if array.shape != shape:
        raise GpuEnvsError(f"{name}: expected shape {shape}, got {array.shape}")
    return array.astype(dtype)


def matchup_key(matchup: Sequence[int]) -> str:
    """Return the text form of a matchup, the indices of the seats' policies."""
    return ",".join(map(str, matchup))


def matchup_indices(key: str) -> tuple[int, ...]:
    """Read the result of `matchup_key`; raise ValueError for other text."""
    if not re.fullmatch(r"-?\d{1,9}(,-?\d{1,9})*", key, re.ASCII):
        raise ValueError(f"expected indices, got {key!r:.80}")
    return tuple(map(int, key.split(",")))
