"""Public names of a package, imported at their first use."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy_exports"]


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
        module_name, _, attribute = modules[name].partition(":")
        module = importlib.import_module(module_name)
        found = namespace[name] = module if module_name == f"{package}.{name}" else getattr(module, attribute or name)
        return found

    def names() -> list[str]:
        special = (name for name in namespace if name.startswith("__"))
        return sorted({*special, *namespace.get("__all__", ()), *modules})

    return get, names
