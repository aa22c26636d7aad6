"""Modules that names such as "meet:Meet-v0" or "my_league:solve" begin with, and the objects in them.

Importing a module runs its code. A name in a program or on a command line may import its module. A name in a file may
not, see :func:`gpu_envs.definition.registry.recorded_id` and :func:`named_object`.
"""

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_envs.errors import ConfigError, UnknownEnvironmentError, shown
from gpu_envs.utils.terminal import shell_command

NAMESPACE = "gpu_envs/"  # of the ids in Gymnasium's registry

_named: dict[str, None] = {}  # all of them imported
_chosen: set[str] = set()  # those among them that a program or a command line has named, and not only a file


LIBRARIES = ("pettingzoo", "gymnasium", "open_spiel")
"""Libraries whose environments are ids with their name in front, such as "gymnasium:CartPole-v1"."""


def split_id(id: str) -> tuple[str, str]:
    """Split an id into its module and its name: "meet:Meet-v0" -> ("meet", "Meet-v0"); "" without a module.

    The name of an environment of another library is the whole id. Its module is the one that is imported besides the
    library: "pettingzoo:mpe2.simple_tag_v3" -> "mpe2.simple_tag_v3", "gymnasium:meet:Meet-v0" -> "meet".
    """
    id = str(id).removeprefix(NAMESPACE)
    library, name = split_library(id)
    if library == "pettingzoo":
        return "" if name.startswith("pettingzoo.") else name, id
    if library:
        return name.rpartition(":")[0] if library == "gymnasium" else "", id
    module, _, name = id.rpartition(":")
    return module, name


def split_library(id: str) -> tuple[str, str]:
    """Split the id of another library's environment into the library and the name there; ("", id) of other ids."""
    library, _, name = id.partition(":")
    return (library, name) if library in LIBRARIES and name else ("", id)


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
    _chosen.add(module)


def is_chosen(module: str) -> bool:
    """Return whether an id in a program or on a command line has named a module; files may name its functions then."""
    return module in _chosen


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


def named_object(setting: str, name: str, expected: type | Sequence[str]) -> Any:
    """Return the object that "module:Name" names, from a module that is imported already.

    Args:
        setting: Setting that has the name, for messages.
        name: Such as "my_learner:MyLearner".
        expected: Base class of the class that the name must be, `object` for any class; or the arguments that the name,
            then a function, must take, such as ["payoffs"].

    Raises:
        ConfigError: The module is not imported, has no such name, or its object is of another kind.
    """
    module, attribute = split_id(name)
    is_library = module.partition(".")[0] in sys.stdlib_module_names  # such as os:_exit, which programs import
    if not is_imported(module) or (is_library and not isinstance(expected, type) and not is_chosen(module)):
        raise ConfigError(
            f"{setting} {name!r}: its module {module!r} is not imported, because the name may come from a file; "
            f"add {shell_command('--allow-import', module)} if you trust it"
        )
    value = getattr(sys.modules[module], attribute, None)
    if isinstance(expected, type):
        noun = "a class" if expected is object else f"a subclass of {expected.__name__}"
        matches = isinstance(value, type) and issubclass(value, expected)
    else:
        noun, matches = f"a function of ({', '.join(expected)})", _takes(value, len(expected))
    if not matches:
        raise ConfigError(f"{setting} {name!r}: expected {noun} named {attribute} in {module}, got {shown(value)}")
    return value


def named_settings(setting: str, name: str) -> type:
    """Return the dataclass "module:NameConfig" with the settings of the class "module:Name", see `named_object`.

    Raises:
        ConfigError: The module is not imported, has no such class, or it is no dataclass.
    """
    settings: type[Any] = named_object(setting, f"{name}Config", object)
    if not dataclasses.is_dataclass(settings):
        raise ConfigError(f"{setting} {name!r}: expected a dataclass {name}Config, got {shown(settings)}")
    return settings


def _takes(value: Any, count: int) -> bool:
    """Return whether an object can be called with a number of arguments."""
    try:
        inspect.signature(value).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


def named_modules() -> tuple[str, ...]:
    """Return the modules that ids of this process have named, for tasks that run in other processes."""
    return tuple(module for module in _named if module in sys.modules)


def import_named(modules: Sequence[str]) -> None:
    """Import, in a worker process, the ``named_modules`` of the process that gave it a task."""
    for module in modules:
        allow_import(module)


def import_words(*settings: Any) -> list[str]:
    """Return the words that commands need to read a run with these settings: ["--allow-import", MODULE, ...], or [].

    Args:
        *settings: Names, or mappings and lists of settings that may be names, of modules imported already.
    """
    modules = dict.fromkeys(_modules_in(settings))
    return [word for module in modules for word in ("--allow-import", module)]


def _modules_in(value: Any) -> Iterator[str]:
    """Yield the imported modules of all names in nested settings."""
    if isinstance(value, str) and (module := split_id(value)[0]) in _named:
        yield module
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _modules_in(item)
