"""Recorded transitions of originals."""

import json
import zipfile

import numpy as np


def write_arrays(path, arrays):
    """Write a file that `np.load` reads, compressed by LZMA, which makes it a third smaller than NumPy's own."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)


def recorded(path, index):
    """Return the settings of a trace in a file, and its arrays by name."""
    with np.load(path) as file:
        prefix = f"{index}."
        arrays = {name.removeprefix(prefix): file[name] for name in file.files if name.startswith(prefix)}
        return json.loads(str(file["settings"]))[index], arrays
