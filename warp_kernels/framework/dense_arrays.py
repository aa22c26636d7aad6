"""Warp functions that rebuild arrays over the same memory with sizes known at compile time.

Arrays whose sizes are constants are indexed without a multiplication by strides that are known only at run time.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from warp_kernels.episode import IO
from warp_kernels.generated_source import compiled


def _dense(name: str, struct: str, shapes: Mapping[str, Iterable[Any]], constants: dict[str, Any]) -> Any:
    """Build ``dense(NAME, n)``, which returns a struct with arrays of these shapes, in which ``n`` is E."""
    lines, kind = [], constants[struct]
    for field, shape in shapes.items():
        constants[f"{field}_type"] = kind.vars[field].type.dtype
        sizes = ", ".join(map(str, shape))
        lines.append(f"{name}.{field} = wp.array(ptr={name}.{field}.ptr, shape=({sizes},), dtype={field}_type)")
    return compiled("dense", f"{name}: {struct}, n: int", [*lines, f"return {name}"], constants)


def dense_io(fields: Iterable[str], num_agents: int, sizes: Mapping[str, int]) -> Any:
    """Build the function ``dense(io, n)``, which returns IO with dense arrays over the same memory; n is E.

    Args:
        fields: Names of the arrays, (E,), (E, A) or (E, A, last).
        num_agents: Number of agents A per world.
        sizes: Last size of arrays with three dimensions; one that is missing is read at run time.
    """
    axes = {field: ("n", "num_agents", sizes.get(field, f"io.{field}.shape[2]")) for field in fields}
    shapes = {field: shape[: IO.vars[field].type.ndim] for field, shape in axes.items()}
    return _dense("io", "IO", shapes, {"IO": IO, "num_agents": num_agents})


def dense_state(state: type, tails: Mapping[str, tuple[int, ...]], tables: Collection[str] = ()) -> Any:
    """Build ``Rules.relayout``: fields of State as dense arrays of constant sizes.

    Args:
        state: Warp struct of arrays with a leading E.
        tails: Sizes without the leading E by field.
        tables: Fields among them that all worlds share: they have one row.
    """
    shapes = {name: (1 if name in tables else "n", *tail) for name, tail in tails.items()}
    return _dense("state", "State", shapes, {"State": state})
