"""Observations are stored as flat rows of float32; views show them in the shape and dtype of the declared space."""

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.errors import ConfigError

__all__ = ["DTYPES", "flat_space", "shape_observation", "shape_row"]

DTYPES: dict[np.dtype[Any], torch.dtype] = {
    np.dtype(np.float32): torch.float32,
    np.dtype(np.uint8): torch.uint8,
    np.dtype(bool): torch.bool,
}
"""Torch dtype of an observation by the dtype of its space."""


def flat_space(space: Any, subject: str) -> spaces.Box:
    """Return the flat float32 Box of a declared observation space, which is the space itself if it is flat.

    Args:
        space: A Box with one or more axes, of float32, uint8 or bool.
        subject: Start of the message of an error, such as "meet 3: observation space of walker_0".

    Raises:
        ConfigError: It is another space.
    """
    if not isinstance(space, spaces.Box) or space.dtype not in DTYPES or not space.shape:
        names = ", ".join(str(dtype) for dtype in DTYPES)
        raise ConfigError(f"{subject}: expected a Box with one or more axes, of {names}, got {space}")
    if len(space.shape) == 1 and space.dtype == np.float32:
        return space
    low, high = (bound.astype(np.float32).ravel() for bound in (space.low, space.high))
    return spaces.Box(low, high, dtype=np.float32)


def shape_row(rows: Any, space: spaces.Space[Any]) -> Any:
    """Return observations (..., D) of float32 in the shape of their space, without padding and still of float32."""
    shape = space.shape
    assert shape is not None
    rows = rows[..., : math.prod(shape)]
    return rows.reshape(*rows.shape[:-1], *shape) if len(shape) > 1 else rows


def shape_observation(rows: Any, space: spaces.Space[Any]) -> Any:
    """Return observations in the shape and dtype of their space.

    Args:
        rows: (..., D) float32, a tensor or an array, with D numbers or more, of which the others are padding.
        space: Declared observation space of D numbers.

    Returns:
        (..., *space.shape), a view where the dtype is float32 and the memory allows it.
    """
    rows = shape_row(rows, space)
    if space.dtype == np.float32:
        return rows
    return rows.to(DTYPES[np.dtype(space.dtype)]) if isinstance(rows, torch.Tensor) else rows.astype(space.dtype)
