"""Public names of a package, imported at their first use."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

from gpu_envs.errors import GpuEnvsError

__all__ = ["lazy_exports"]

_importing: list[tuple[int, str]] = []
"""Imports in progress: thread and name."""
_locked: list[str] = []
"""Names whose import other threads had not finished when this process was forked. Python keeps the locks of modules in
the child, where no thread releases them: an import would wait forever."""


def _find_locked_modules() -> None:
    _locked[:] = [name for thread, name in _importing if thread != get_ident()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_find_locked_modules)


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports its public names at their first use.

    ``dir()`` of the package lists its public names and its special attributes, not what the package imports for itself.

    Args:
        package: The package's ``__name__``.
        modules: Full name of the module that defines each public name; "module:other" if it has another name there, and
            the name of a subpackage itself for a public subpackage.
    """
    namespace = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if _locked:
            raise GpuEnvsError(
                f"{package}.{name}: this process was forked while another thread imported {_locked[0]}, which is "
                "locked now; fork later, or start processes with multiprocessing.get_context('spawn')"
            )
        module_name, _, attribute = modules[name].partition(":")
        work = (get_ident(), f"{package}.{name}")
        _importing.append(work)
        try:
            module = importlib.import_module(module_name)
        finally:
            _importing.remove(work)
        value = namespace[name] = module if module_name == f"{package}.{name}" else getattr(module, attribute or name)
        return value

    def names() -> list[str]:
        special = (name for name in namespace if name.startswith("__"))
        return sorted({*special, *namespace.get("__all__", ()), *modules})

    return get, names
