"""Conversion between declared observation spaces and the flat rows of float32 that kernels write.

An image (64, 64, 3) of uint8 is stored as 12288 numbers, and a Dict as its blocks one after the other. Views return a
row in the shapes and dtypes of the space. Rows of agents with a narrow observation are padded at the end.
"""

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.errors import ConfigError

DTYPES: tuple[np.dtype[Any], ...] = (np.dtype(np.float32), np.dtype(np.uint8), np.dtype(bool))
"""Dtypes of spaces whose observations flat rows can hold."""


def torch_dtype(space: spaces.Space[Any]) -> Any:
    """Return the torch dtype of observations of a space whose dtype is one of `DTYPES`."""
    import torch  # processes that only play host environments start without it

    return getattr(torch, str(space.dtype))


def observation_blocks(space: Any) -> dict[str, Any]:
    """Return the boxes of an observation space by name, in the order of the flat row; a Box is "observation"."""
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}


def flat_space(space: Any, subject: str) -> spaces.Box:
    """Return the flat float32 Box of a declared observation space, which is the space itself if it is flat.

    Args:
        space: A Box with one or more axes, of float32, uint8 or bool, or a Dict of such Boxes.
        subject: Start of an error message, such as "meet 3: observation space of walker_0".

    Raises:
        ConfigError: The space is of another kind, or has a block "action_mask".
    """
    blocks = observation_blocks(space)
    if not blocks or not all(_is_storable(box) for box in blocks.values()):
        dtypes = ", ".join(str(dtype) for dtype in DTYPES)
        expected = f"a Box with one or more axes, of {dtypes}, or a Dict of such Boxes"
        raise ConfigError(f"{subject}: expected {expected}, got {space}")
    if "action_mask" in blocks:  # views add a block of this name
        raise ConfigError(
            f"{subject}: expected blocks of other names, got action_mask; set masked in the rules, and views add it"
        )
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and space.dtype == np.float32:
        return space
    low = np.concatenate([box.low.astype(np.float32).ravel() for box in blocks.values()])
    high = np.concatenate([box.high.astype(np.float32).ravel() for box in blocks.values()])
    return spaces.Box(low, high, dtype=np.float32)


def _is_storable(space: Any) -> bool:
    return isinstance(space, spaces.Box) and space.dtype in DTYPES and len(space.shape) > 0


def shape_row(rows: Any, space: spaces.Space[Any]) -> Any:
    """Return observations in the shapes of their space, without padding and still of float32.

    Args:
        rows: (..., D) float32, a tensor or an array; columns after the numbers of the space are padding.
        space: A Box, or a Dict of Boxes.

    Returns:
        ``(..., *space.shape)``, or a dict of such blocks by name, which are views where the memory allows it.
    """
    if isinstance(space, spaces.Dict):
        blocks, start = {}, 0
        for name, box in space.spaces.items():
            blocks[name] = shape_row(rows[..., start:], box)
            start += math.prod(box.shape or ())
        return blocks
    shape = space.shape
    assert shape is not None  # a Box has one
    rows = rows[..., : math.prod(shape)]
    return rows.reshape(*rows.shape[:-1], *shape) if len(shape) > 1 else rows


def shape_observation(rows: Any, space: spaces.Space[Any]) -> Any:
    """Return observations in the shapes and dtypes of their space.

    Args:
        rows: (..., D) float32, a tensor or an array; columns after the numbers of the space are padding.
        space: A Box, or a Dict of Boxes, of dtypes in `DTYPES`.

    Returns:
        ``(..., *space.shape)``, or a dict of such blocks by name. Blocks of float32 are views where the memory allows
        it, and others are copies.
    """
    return _convert_dtypes(shape_row(rows, space), space)


def _convert_dtypes(observation: Any, space: spaces.Space[Any]) -> Any:
    """Return a shaped observation of float32 in the dtypes of its space."""
    if isinstance(space, spaces.Dict):
        return {name: _convert_dtypes(observation[name], box) for name, box in space.spaces.items()}
    if space.dtype == np.float32:
        return observation
    if isinstance(observation, np.ndarray):
        return observation.astype(space.dtype)
    return observation.to(torch_dtype(space))
