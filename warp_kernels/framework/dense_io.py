"""Warp functions that rebuild arrays of IO over the same memory with sizes known at compile time."""

from collections.abc import Iterable, Mapping
from typing import Any

from warp_kernels.episode import IO
from warp_kernels.generated_source import compiled

__all__ = ["dense_io"]

_WORLDS, _AGENTS = "n", "num_agents"


def dense_io(fields: Iterable[str], num_agents: int, sizes: Mapping[str, int]) -> Any:
    """Build the function ``dense(io, n)``, which returns IO with dense arrays over the same memory; n is E.

    Arrays whose sizes are constants are indexed without a multiplication by strides that are known only at run time.
    Number of dimensions and dtype of every array come from the annotations of :class:`warp_kernels.episode.IO`.

    Args:
        fields: Names of the arrays, (E,), (E, A) or (E, A, last).
        num_agents: Number of agents A per world.
        sizes: Last size of arrays with three dimensions; one that is missing is read at run time.
    """
    lines, dtypes = [], {}
    for field in fields:
        array = IO.vars[field].type
        dtypes[f"{field}_type"] = array.dtype
        last = sizes.get(field, f"io.{field}.shape[2]")
        shape = ", ".join(str(axis) for axis in (_WORLDS, _AGENTS, last)[: array.ndim])
        lines.append(f"io.{field} = wp.array(ptr=io.{field}.ptr, shape=({shape},), dtype={field}_type)")
    constants = {"IO": IO, "num_agents": num_agents, **dtypes}
    return compiled("dense", "io: IO, n: int", [*lines, "return io"], constants)
