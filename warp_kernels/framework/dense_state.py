"""Warp functions that rebuild arrays of State over the same memory with sizes known at compile time."""

from collections.abc import Collection, Mapping
from typing import Any

from warp_kernels.generated_source import compiled

__all__ = ["dense_state"]


def dense_state(state: type, tails: Mapping[str, tuple[int, ...]], tables: Collection[str] = ()) -> Any:
    """Build ``Rules.relayout``: fields of State as dense arrays of constant sizes.

    Args:
        state: Warp struct of arrays with a leading E.
        tails: Sizes without the leading E by field.
        tables: Fields among them that all worlds share: they have one row.
    """
    lines, dtypes = [], {}
    for name, tail in tails.items():
        dtypes[f"{name}_type"] = state.vars[name].type.dtype
        shape = ", ".join(map(str, (1 if name in tables else "n", *tail)))
        lines.append(f"state.{name} = wp.array(ptr=state.{name}.ptr, shape=({shape},), dtype={name}_type)")
    return compiled("dense", "state: State, n: int", [*lines, "return state"], {"State": state, **dtypes})
