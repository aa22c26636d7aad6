"""Import of modules that ids name, as in "meet:Meet-v0".

Importing a module runs its code. An id in a program or on a command line may import its module. An id in a file may
not, see :func:`gpu_envs.definition.registry.recorded_id`.
"""

import dataclasses
import importlib
import sys
from collections.abc import Sequence

from gpu_envs.errors import ConfigError, UnknownEnvironmentError, shown
from gpu_envs.utils.terminal import shell_command

__all__ = [
    "NAMESPACE",
    "allow_import",
    "import_module",
    "import_named",
    "import_words",
    "is_imported",
    "named_class",
    "named_modules",
    "split_id",
]

NAMESPACE = "gpu_envs/"  # of the ids in Gymnasium's registry

_named: dict[str, None] = {}  # all of them imported


def split_id(id: str) -> tuple[str, str]:
    """Split an id into its module and its name: "meet:Meet-v0" -> ("meet", "Meet-v0"); "" without a module."""
    module, _, name = str(id).removeprefix(NAMESPACE).rpartition(":")
    return module, name


def import_module(module: str) -> None:
    """Import the module of an id.

    Raises:
        UnknownEnvironmentError: The module does not exist.
    """
    try:
        importlib.import_module(module)
    except (ModuleNotFoundError, TypeError, ValueError) as error:
        raise UnknownEnvironmentError(
            f"module {module!r}: {error}; is it installed, or in a folder on PYTHONPATH?"
        ) from error
    _named[module] = None


def allow_import(module: str) -> None:
    """Import a module that a command line names; search the working folder if it is not installed.

    Raises:
        UnknownEnvironmentError: The module does not exist.
    """
    try:
        import_module(module)
    except UnknownEnvironmentError as error:
        missing = getattr(error.__cause__, "name", None) or "."
        if "" in sys.path or not f"{module}.".startswith(f"{missing}."):
            raise
        sys.path.append("")  # last, and only for this module: other imports must not search the working folder
        try:
            import_module(module)
        except BaseException:
            sys.path.remove("")
            raise


def is_imported(module: str) -> bool:
    """Return whether this process has imported a module; a recorded id may name it then."""
    if sys.modules.get(module) is None:
        return False
    _named[module] = None
    return True


def named_class(setting: str, name: str, settings: bool = False) -> type:
    """Return the class that "module:Name" names, from a module that is imported already.

    Args:
        setting: Setting that has the name, for messages.
        name: Such as "my_learner:MyLearner".
        settings: The class must be a dataclass.

    Raises:
        ConfigError: The module is not imported, or has no such class.
    """
    module, attribute = split_id(name)
    if not is_imported(module):
        raise ConfigError(
            f"{setting} {name!r}: its module {module!r} is not imported, because the name may come from a file; "
            f"add {shell_command('--allow-import', module)} if you trust it"
        )
    kind = getattr(sys.modules[module], attribute, None)
    if not isinstance(kind, type) or (settings and not dataclasses.is_dataclass(kind)):
        expected = "a dataclass" if settings else "a class"
        raise ConfigError(f"{setting} {name!r}: expected {expected} {attribute} in {module}, got {shown(kind)}")
    return kind


def named_modules() -> tuple[str, ...]:
    """Return the modules that ids of this process have named, for tasks that run in other processes."""
    return tuple(module for module in _named if module in sys.modules)


def import_named(modules: Sequence[str]) -> None:
    """Import, in a worker process, the ``named_modules`` of the process that gave it a task."""
    for module in modules:
        allow_import(module)


def import_words(*ids: str) -> list[str]:
    """Return the words that commands need to read a run with these ids: ["--allow-import", MODULE, ...], or []."""
    modules = dict.fromkeys(split_id(id)[0] for id in ids)
    return [word for module in modules if module for word in ("--allow-import", module)]
