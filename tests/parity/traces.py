"""Recorded transitions of originals."""

import json

import numpy as np


def recorded(path, index):
    """Return the settings of a trace in a file, and its arrays by name."""
    with np.load(path) as file:
        prefix = f"{index}."
        arrays = {name.removeprefix(prefix): file[name] for name in file.files if name.startswith(prefix)}
        return json.loads(str(file["settings"]))[index], arrays
