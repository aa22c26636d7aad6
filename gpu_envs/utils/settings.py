"""Settings of an environment: frozen dataclasses whose fields have bounds."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from gymnasium.vector import AutoresetMode

from gpu_envs.errors import ConfigError, shown
from gpu_envs.utils.suggestions import unknown_name_message

__all__ = [
    "AUTORESET",
    "MAX_FLOAT",
    "MAX_INT",
    "MAX_SIZE",
    "autoreset_member",
    "build_config",
    "check_value",
    "setting",
]

C = TypeVar("C")

MAX_INT = 2**31 - 1
"""Kernels count in int32."""
MAX_SIZE = 2**20
"""Maximum of an int without ``high``, such as a number of agents or a size of buffers and spaces."""
MAX_FLOAT = (2 - 2**-23) * 2.0**127
"""Kernels calculate in float32."""
AUTORESET = {
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.DISABLED: "disabled",
}
"""Names of Gymnasium's autoreset modes in settings."""
_WORDS = {int: "an int", float: "a finite number", bool: "True or False", str: "a string"}
_PLURALS = {int: "ints", float: "finite numbers", bool: "bools", str: "strings"}


def autoreset_member(mode: Any) -> AutoresetMode | None:
    """Return Gymnasium's mode for a member, its value ("NextStep") or the name of a setting; None if unknown."""
    if not isinstance(mode, (str, AutoresetMode)):
        return None
    return next((member for member, word in AUTORESET.items() if mode in (member, member.value, word)), None)


def setting(default: Any, *, low: float | None = None, high: float | None = None, choices: tuple = ()) -> Any:
    """Return a dataclass field with a default and its allowed values (bounds inclusive).

    An int without ``high`` may be a size of allocated memory, and is at most ``MAX_SIZE``. A number that costs no
    memory, such as a number of steps, has ``high=MAX_INT``.
    """
    return dataclasses.field(default=default, metadata={"low": low, "high": high, "choices": choices})


def build_config(kind: type[C], values: dict[str, Any], owner: str, others: Collection[str] = ()) -> C:
    """Return a config made of keyword arguments, after checks of names, types and bounds.

    Ints must be at most ``MAX_SIZE`` or their ``high``, and floats must fit float32, the type of kernels. Lists become
    tuples.

    Args:
        kind: Config dataclass.
        values: Keyword arguments of the user.
        owner: ID of the environment for messages, such as "SimpleTag-v0".
        others: Further argument names of the caller, for suggestions.

    Raises:
        ConfigError: Naming the field, its value and the allowed values.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    for name in values:
        if name not in fields:
            raise ConfigError(f"{owner}: {unknown_name_message('setting', name, [*fields, *others])}")
    try:
        return kind(**{name: _checked(name, v, hints[name], fields[name].metadata) for name, v in values.items()})
    except ConfigError as error:  # of one field, or from __post_init__: rules between fields
        raise ConfigError(f"{owner}: {error}") from None


def check_value(where: str, name: str, value: Any, hint: Any, **bounds: Any) -> Any:
    """Return an argument, checked and converted like a setting of a config.

    Args:
        where: Start of the message.
        name: Name of the argument.
        value: Given value.
        hint: ``int``, ``float``, ``bool`` or ``str``, each also with ``| None``.
        **bounds: ``low``, ``high`` and ``choices``, as of :func:`setting`.

    Raises:
        ConfigError: The type or the value is not allowed.
    """
    try:
        return _checked(name, value, hint, bounds)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _checked(name: str, value: Any, hint: Any, bounds: Mapping[str, Any]) -> Any:
    """Return one checked value, converted where that is lossless."""
    low, high, choices = (bounds.get(key) for key in ("low", "high", "choices"))
    limit = {int: MAX_SIZE if high is None else MAX_INT, float: MAX_FLOAT}
    inner = _optional(hint)
    if inner is not None and value is None:
        return None
    hint, other = (hint, "") if inner is None else (inner, ", or None")

    def refuse(more: str = "") -> ConfigError:
        return ConfigError(f"{name} must be {_wanted(hint, low, high, choices)}{more}{other}, got {shown(value)}")

    if hasattr(value, "tolist"):  # NumPy's and torch's scalars and arrays
        try:
            value = value.tolist()
        except RuntimeError:  # a sparse tensor, or one without memory
            raise refuse() from None
    element = _element(hint)
    if element is not None:
        if value is None:
            return None
        if not isinstance(value, (list, tuple)):
            raise refuse()
        return tuple(_checked(f"{name}[{index}]", item, element, {}) for index, item in enumerate(value))
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_FLOAT:
        value = float(value)
    if hint in _WORDS and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
        raise refuse()
    if isinstance(value, float) and not math.isfinite(value):
        raise refuse()
    if (low is not None and value < low) or (high is not None and value > high) or (choices and value not in choices):
        raise refuse()
    if hint in limit and abs(value) > limit[hint]:
        raise refuse(f" of at most {limit[hint]:.10g} in size")
    return value


def _element(hint: Any) -> Any:
    """Return the item type T of a field ``tuple[T, ...] | None``; None for any other field."""
    tuples = [part for part in get_args(hint) if get_origin(part) is tuple]
    return get_args(tuples[0])[0] if tuples else None


def _optional(hint: Any) -> Any:
    """Return T of a field ``T | None``, where T is a number, bool or string; None for any other field."""
    parts = get_args(hint)
    rest = [part for part in parts if part is not type(None)]
    return rest[0] if len(parts) == 2 and len(rest) == 1 and rest[0] in _WORDS else None


def _wanted(hint: Any, low: Any, high: Any, choices: Any) -> str:
    """Return the allowed values of a field in words."""
    if choices:
        return "one of " + ", ".join(repr(choice) for choice in choices)
    element = _element(hint)
    words = _WORDS.get(hint, str(hint)) if element is None else f"a list of {_PLURALS[element]}, or None"
    if low is not None and high is not None:
        return f"{words} in [{low}, {high}]"
    if low is not None:
        return f"{words} >= {low}"
    return f"{words} <= {high}" if high is not None else words
