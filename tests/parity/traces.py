"""Recorded transitions of originals."""

import io
import json
import lzma

import numpy as np

FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 2, "pb": 2}]
"""LZMA2 for values of four bytes."""


def write_arrays(path, arrays):
    """Write the `.npz` of NumPy, compressed as a whole, so that values that several arrays have are stored once."""
    with lzma.open(path, "wb", filters=FILTERS) as file:
        np.savez(file, **arrays)


def read_arrays(path):
    """Return the arrays of a file by name."""
    with lzma.open(path) as file, np.load(io.BytesIO(file.read())) as arrays:
        return dict(arrays)


def select_arrays(arrays, prefix):
    """Return the arrays whose names start with a prefix and a dot, by the part of the name after it."""
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def recorded(path, index):
    """Return the settings of a trace in a file, and its arrays by name."""
    arrays = read_arrays(path)
    return json.loads(str(arrays["settings"]))[index], select_arrays(arrays, index)
