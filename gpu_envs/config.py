"""Settings of an environment: frozen dataclasses whose fields carry their own bounds."""

import dataclasses
import difflib
import math
from typing import Any, TypeVar, get_type_hints

from gpu_envs.errors import ConfigError

C = TypeVar("C")


def setting(default: Any, *, low: float | None = None, high: float | None = None, choices: tuple = ()) -> Any:
    """A dataclass field with a default and the values it allows (bounds inclusive)."""
    return dataclasses.field(default=default, metadata={"low": low, "high": high, "choices": choices})


def build_config(kind: type[C], values: dict[str, Any], owner: str) -> C:
    """Make a config out of keyword arguments, checking names, types and bounds.

    Args:
        kind: The config dataclass.
        values: Keyword arguments of the user.
        owner: Who is configured, for the message ("SimpleTag-v0").

    Raises:
        ConfigError: Naming the field, its value and what is allowed.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    for name in values:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(fields)}"
            raise ConfigError(f"{owner}: no setting named {name}; {hint}")
    checked = {name: _checked(value, fields[name], hints[name], owner) for name, value in values.items()}
    try:
        return kind(**checked)
    except ConfigError as error:  # from __post_init__: rules between fields
        raise ConfigError(f"{owner}: {error}") from None


def _checked(value: Any, field: dataclasses.Field, hint: Any, owner: str) -> Any:
    """One value, converted where that loses nothing."""
    low, high, choices = (field.metadata.get(key) for key in ("low", "high", "choices"))
    wanted = _wanted(hint, low, high, choices)

    def refuse() -> ConfigError:
        return ConfigError(f"{owner}: {field.name} must be {wanted}, got {value!r}")

    if hasattr(value, "item") and not isinstance(value, (str, bytes)) and getattr(value, "shape", None) == ():
        value = value.item()  # a NumPy or torch scalar
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if hint in (int, float, bool, str) and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
        raise refuse()
    if isinstance(value, float) and not math.isfinite(value):
        raise refuse()
    if (low is not None and value < low) or (high is not None and value > high) or (choices and value not in choices):
        raise refuse()
    return value


def _wanted(hint: Any, low: Any, high: Any, choices: Any) -> str:
    """In words, what a field takes."""
    if choices:
        return "one of " + ", ".join(repr(choice) for choice in choices)
    words = {int: "an int", float: "a finite number", bool: "True or False", str: "a string"}.get(hint, str(hint))
    if low is not None and high is not None:
        return f"{words} in [{low}, {high}]"
    if low is not None:
        return f"{words} >= {low}"
    return f"{words} <= {high}" if high is not None else words
