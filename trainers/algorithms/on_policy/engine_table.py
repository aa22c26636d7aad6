"""Measured speed of kernels over PyTorch in updates of actor-critic learners, which `engine = "auto"` follows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainers.base.serialization import check_fields

__all__ = ["MIN_RATIO", "TABLE", "MeasuredUpdate", "expected_ratio", "kernels_are_faster", "read_table"]

TABLE = Path(__file__).with_name("engine_table.json")
"""Table by `python -m benchmarks.training.engines`, with its machine, date and command."""
MIN_RATIO = 1.1
"""Smallest expected ratio that makes "auto" take kernels."""


@dataclass(frozen=True)
class MeasuredUpdate:
    """Speed of one kind of update."""

    inputs: int
    """Width of the observations."""
    layers: int
    """Number of hidden layers."""
    width: int
    """Width of the hidden layers."""
    rows: int
    """Rows of a minibatch."""
    ratio: float
    """Time of PyTorch over the time of kernels, median of adjacent pairs."""

    def distance(self, inputs: int, hidden_sizes: Sequence[int], rows: float) -> float:
        """Return the distance to another update: logarithms of inputs, layers, mean width and rows."""
        width = math.exp(sum(map(math.log, hidden_sizes)) / len(hidden_sizes))
        pairs = ((self.inputs, inputs), (self.layers, len(hidden_sizes)), (self.width, width), (self.rows, rows))
        return math.dist([math.log(size) for size, _ in pairs], [math.log(max(other, 1)) for _, other in pairs])


def read_table(path: Path = TABLE) -> dict[str, tuple[MeasuredUpdate, ...]]:
    """Return the measured updates by type of device.

    Raises:
        CheckpointError: The file has other fields.
    """
    types = {"inputs": int, "layers": int, "width": int, "rows": int, "ratio": float}
    devices = json.loads(path.read_text(encoding="utf-8"))["devices"]
    return {
        device: tuple(MeasuredUpdate(**check_fields(f"{path.name}: {device}", entry, types)) for entry in entries)
        for device, entries in devices.items()
    }


def expected_ratio(device_type: str, inputs: int, hidden_sizes: Sequence[int], rows: float) -> float | None:
    """Return the speed of kernels over PyTorch in the nearest measured update; None if the device was not measured.

    Args:
        device_type: Type of the device, such as "cpu".
        inputs: Width of the observations.
        hidden_sizes: Widths of the hidden layers, at least one.
        rows: Rows of a minibatch.
    """
    entries = _table().get(device_type, ())
    nearest = min(entries, key=lambda entry: entry.distance(inputs, hidden_sizes, rows), default=None)
    return None if nearest is None else nearest.ratio


def kernels_are_faster(device_type: str, inputs: int, hidden_sizes: Sequence[int], rows: float) -> bool:
    """Return whether kernels are expected to be faster than PyTorch; arguments as in `expected_ratio`."""
    ratio = expected_ratio(device_type, inputs, hidden_sizes, rows)
    return ratio is not None and ratio >= MIN_RATIO


@cache
def _table() -> dict[str, tuple[MeasuredUpdate, ...]]:
    return read_table()
