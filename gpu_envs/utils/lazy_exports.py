"""Public names of a package, imported at their first use."""

import ast
import importlib
import os
import sys
from collections.abc import Callable
from threading import get_ident
from typing import Any

from gpu_envs.errors import GpuEnvsError

_importing: list[tuple[int, str]] = []
"""Imports in progress: thread and name."""
_locked: list[str] = []
"""Names whose import other threads had not finished when this process was forked. Python keeps the locks of modules in
the child, where no thread releases them: an import would wait forever."""


def _find_locked_modules() -> None:
    _locked[:] = [name for thread, name in _importing if thread != get_ident()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_find_locked_modules)


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports its public names at their first use.

    The names are those that its ``__init__.py`` imports for type checkers, under ``if TYPE_CHECKING:``. ``dir()`` of
    the package lists its public names and its special attributes, not what the package imports for itself.

    Args:
        package: The package's ``__name__``.
    """
    namespace = vars(sys.modules[package])
    imports = _typed_imports(namespace["__spec__"].loader.get_source(package))

    def get(name: str) -> Any:
        if name not in imports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if _locked:
            raise GpuEnvsError(
                f"{package}.{name}: this process was forked while another thread imported {_locked[0]}, which is "
                "locked now; fork later, or start processes with multiprocessing.get_context('spawn')"
            )
        source, attribute = imports[name]
        work = (get_ident(), f"{package}.{name}")
        _importing.append(work)
        try:
            if source == package:  # a subpackage
                value = importlib.import_module(f"{package}.{attribute}")
            else:
                value = getattr(importlib.import_module(source), attribute)
        finally:
            _importing.remove(work)
        namespace[name] = value
        return value

    def names() -> list[str]:
        special = (name for name in namespace if name.startswith("__"))
        return sorted({*special, *namespace.get("__all__", ()), *imports})

    return get, names


def _typed_imports(source: str) -> dict[str, tuple[str, str]]:
    """Return module and attribute of each name that a source imports under ``if TYPE_CHECKING:``."""
    branches = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    blocks = [branch.body for branch in branches if ast.unparse(branch.test) == "TYPE_CHECKING"]
    lines = [line for block in blocks for line in block if isinstance(line, ast.ImportFrom)]
    return {alias.asname or alias.name: (str(line.module), alias.name) for line in lines for alias in line.names}
