"""Warp functions that rebuild arrays of IO over the same memory with sizes known at compile time."""

import hashlib
import linecache
from collections.abc import Iterable, Mapping
from typing import Any

import warp as wp

from warp_kernels.episode import IO

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
    return _compiled("dense", lines, {"num_agents": num_agents, **dtypes})


def _compiled(name: str, lines: list[str], constants: dict[str, Any]) -> Any:
    """Make a Warp function ``name(io, n)`` of generated lines; Warp reads its source through ``linecache``."""
    source = "\n".join(
        [
            f"def make({', '.join(constants)}):",
            "    @wp.func(inline=True)",
            f"    def {name}(io: IO, n: int):",
            *(f"        {line}" for line in lines),
            "        return io",
            f"    return {name}",
            "",
        ]
    )
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]  # equal in every process: kernels are cached
    file = f"<{__name__}.{name} {digest}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": __name__, "IO": IO, "wp": wp}
    exec(compile(source, file, "exec"), namespace)  # the source is made of names of IO's fields
    return namespace["make"](**constants)
