"""Named blocks of rows, such as images, entities and other numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor


def split_blocks(rows: Tensor, shapes: Mapping[str, Sequence[int]], by_feature: Sequence[str]) -> dict[str, Tensor]:
    """Return the blocks `(..., *shape)` of rows (..., D) by name, as views.

    Args:
        rows: (..., D).
        shapes: Shapes by name, in order.
        by_feature: Names of blocks that are (d, n) in a row and (n, d) in `shapes` and the result.
    """
    parts = rows.split([math.prod(shape) for shape in shapes.values()], -1)
    return {
        name: part.unflatten(-1, (shape[1], shape[0])).transpose(-1, -2)
        if name in by_feature and len(shape) == 2
        else part.unflatten(-1, tuple(shape))
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


def block_shapes(spec: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the blocks of a network's inputs by name, those of n entities with d numbers as (n, d).

    A row whose specification has no blocks is the block "observation".
    """
    by_feature = spec.get("by_feature", ())
    shapes = spec.get("blocks") or {"observation": [spec["obs_width"]]}
    return {name: tuple(shape[::-1] if name in by_feature else shape) for name, shape in shapes.items()}


def entities_of(rows: Tensor, spec: Mapping[str, Any]) -> list[Tensor]:
    """Return views (..., n, d) of the entities in rows (..., D), for networks without regard to their order.

    They are the blocks of two axes if the network is "attention"; for others there are none.
    """
    if spec.get("network") != "attention":
        return []
    blocks = split_blocks(rows, block_shapes(spec), spec.get("by_feature", ()))
    return [block for block in blocks.values() if block.dim() == rows.dim() + 1]
