"""Observations are stored as flat rows of float32; views show them in the shape and dtype of the declared space."""

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.errors import ConfigError

__all__ = ["DTYPES", "flat_space", "observation_blocks", "shape_observation", "shape_row"]

DTYPES: dict[np.dtype[Any], torch.dtype] = {
    np.dtype(np.float32): torch.float32,
    np.dtype(np.uint8): torch.uint8,
    np.dtype(bool): torch.bool,
}
"""Torch dtype of an observation by the dtype of its space."""


def observation_blocks(space: Any) -> dict[str, Any]:
    """Return the blocks of an observation by name, in the order of the flat row: a Dict's, or one, "observation"."""
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}


def flat_space(space: Any, subject: str) -> spaces.Box:
    """Return the flat float32 Box of a declared observation space, which is the space itself if it is flat.

    Args:
        space: A Box with one or more axes, of float32, uint8 or bool, or a Dict of such Boxes.
        subject: Start of the message of an error, such as "meet 3: observation space of walker_0".

    Raises:
        ConfigError: It is another space, or a block has the name of the views' masks.
    """
    blocks = observation_blocks(space)
    fits = (isinstance(box, spaces.Box) and box.dtype in DTYPES and bool(box.shape) for box in blocks.values())
    if not blocks or not all(fits):
        names = ", ".join(str(dtype) for dtype in DTYPES)
        expected = f"a Box with one or more axes, of {names}, or a Dict of such Boxes"
        raise ConfigError(f"{subject}: expected {expected}, got {space}")
    if "action_mask" in blocks:
        raise ConfigError(f"{subject}: expected blocks of other names, got action_mask; use masks of the rules")
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and space.dtype == np.float32:
        return space
    low, high = (
        np.concatenate([getattr(box, bound).astype(np.float32).ravel() for box in blocks.values()])
        for bound in ("low", "high")
    )
    return spaces.Box(low, high, dtype=np.float32)


def shape_row(rows: Any, space: spaces.Space[Any]) -> Any:
    """Return observations (..., D) of float32 in the shapes of their space, without padding and still of float32.

    Args:
        rows: A tensor or an array.
        space: A Box of D numbers, or a Dict of Boxes, whose blocks are then returned by name.
    """
    if isinstance(space, spaces.Dict):
        parts, start = {}, 0
        for name, box in space.spaces.items():
            parts[name] = shape_row(rows[..., start:], box)
            start += math.prod(box.shape or ())
        return parts
    shape = space.shape
    assert shape is not None
    rows = rows[..., : math.prod(shape)]
    return rows.reshape(*rows.shape[:-1], *shape) if len(shape) > 1 else rows


def shape_observation(rows: Any, space: spaces.Space[Any]) -> Any:
    """Return observations in the shapes and dtypes of their space, see `shape_row`.

    Args:
        rows: (..., D) float32, a tensor or an array, with D numbers or more, of which the others are padding.
        space: Declared observation space of D numbers.

    Returns:
        ``(..., *space.shape)``, a view where the dtype is float32 and the memory allows it; for a Dict a dict by block.
    """
    return _convert(shape_row(rows, space), space)


def _convert(rows: Any, space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: _convert(rows[name], box) for name, box in space.spaces.items()}
    if space.dtype == np.float32:
        return rows
    return rows.to(DTYPES[np.dtype(space.dtype)]) if isinstance(rows, torch.Tensor) else rows.astype(space.dtype)
