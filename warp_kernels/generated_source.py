"""Warp functions and kernels made of generated source lines, where sizes decide about the number of variables."""

import hashlib
import linecache
from collections.abc import Mapping, Sequence
from typing import Any

import warp as wp


def compiled(
    name: str, parameters: str, lines: Sequence[str], constants: Mapping[str, Any], kind: str = "wp.func(inline=True)"
) -> Any:
    """Build the Warp function ``name(parameters)`` from the lines of its body.

    Warp and debuggers read them through ``linecache``: ``inspect.getsource(function.func)`` returns the source.

    Args:
        name: Name of the function.
        parameters: Its parameters with their types, as in source code.
        lines: Lines of its body.
        constants: Values by the names that the lines and the types use.
        kind: Decorator that makes a Warp function of it.
    """
    source = "\n".join(
        [
            f"def make({', '.join(constants)}):",
            f"    @{kind}",
            f"    def {name}({parameters}):",
            *(f"        {line}" for line in lines),
            f"    return {name}",
            "",
        ]
    )
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]  # equal in every process: kernels are cached
    file = f"<{__name__}.{name} {digest}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": __name__, "wp": wp}
    exec(compile(source, file, "exec"), namespace)  # the source is made of names and numbers of the project
    return namespace["make"](**constants)
