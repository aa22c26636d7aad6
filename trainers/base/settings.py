"""Settings with constraints: dataclass fields that declare their allowed values, checked by one function."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from gpu_envs.errors import ConfigError, shown
from trainers.base.seeding import SEEDS

__all__ = ["check_settings", "completed", "has_default", "setting"]

_RULES: dict[str, Callable[[Any], bool]] = {
    "> 0": lambda value: value > 0,
    ">= 0": lambda value: value >= 0,
    ">= 1": lambda value: value >= 1,
    ">= 2": lambda value: value >= 2,
    "in [1, 2**16]": lambda value: 1 <= value <= 2**16,
    "in [0, 1]": lambda value: 0 <= value <= 1,
    "in (0, 1]": lambda value: 0 < value <= 1,
    "in [0, 2**63)": lambda value: 0 <= value < SEEDS,
}


_NONE: Mapping[str, Any] = {}


def setting(
    default: Any,
    allowed: str | tuple[str, ...] | None = None,
    needs: Mapping[str, Any] = _NONE,
    before: Any = dataclasses.MISSING,
) -> Any:
    """Return a dataclass field with a default and constraints.

    Args:
        default: Default value.
        allowed: A constraint such as "> 0", or the allowed strings.
        needs: Values of other settings without which this one has no effect: name -> value or constraint.
        before: Value for runs recorded before the setting existed, if it differs from the default.
    """
    return dataclasses.field(default=default, metadata={"allowed": allowed, "needs": needs, "before": before})


def check_settings(config: Any, prefix: str = "") -> None:
    """Check every field of a dataclass made with `setting`: type, constraint, finite floats; a default of None passes.

    Raises:
        ConfigError: A field is invalid, or differs from its default without effect. The message names the first one,
            with `prefix`, and the expected value.
    """
    hints = get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, allowed = getattr(config, field.name), field.metadata.get("allowed")
        if value is None and field.default is None:
            continue
        kind = _kind(hints[field.name])
        for each in value if isinstance(value, tuple) else (value,):
            if kind is not None and not _is(each, kind):
                raise ConfigError(f"{prefix}{field.name} = {shown(value)}: expected {_WORDS[kind]}")
            if isinstance(each, float) and not math.isfinite(each):
                wanted, good = f"a finite number {allowed or ''}".rstrip(), False
            elif isinstance(allowed, tuple):
                wanted, good = f"one of {', '.join(allowed)}", each in allowed
            else:
                wanted, good = allowed, allowed is None or _RULES[allowed](each)
            if good and isinstance(each, int) and not -SEEDS <= each < SEEDS:
                wanted, good = "an int below 2**63 in size", False
            if not good:
                raise ConfigError(f"{prefix}{field.name} = {shown(value)}: expected {wanted}")
    given = vars(config)
    for field in dataclasses.fields(config):
        if (lack := _lacks(field, given)) is not None:
            name, wanted = lack
            condition = wanted if wanted in _RULES else f"= {wanted!r}"
            raise ConfigError(
                f"{prefix}{field.name} = {given[field.name]!r}: has no effect with {prefix}{name} = {given[name]!r}; "
                f"set {prefix}{name} {condition}, or leave {prefix}{field.name} out"
            )


_WORDS = {bool: "True or False", int: "an int", float: "a finite number", str: "a string"}


def _kind(hint: Any) -> type | None:
    """Return the plain type of a field or of its tuple's items; None for a field of any other type."""
    parts = [part for part in get_args(hint) if part is not type(None)] if get_origin(hint) is UnionType else [hint]
    if len(parts) == 1 and get_origin(parts[0]) is tuple:
        parts = list({part for part in get_args(parts[0]) if part is not ...})
    return parts[0] if len(parts) == 1 and parts[0] in _WORDS else None


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, int | float if kind is float else kind) and (kind is bool or not isinstance(value, bool))


def completed(kind: type[Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recorded run as the present dataclass needs them.

    Missing settings get their `before` value or default, see `setting`. Settings without effect get their default.
    """
    given = dict(recorded)
    for field in dataclasses.fields(kind):
        if field.name not in given and has_default(field):
            before = field.metadata.get("before", dataclasses.MISSING)
            given[field.name] = _default(field) if before is dataclasses.MISSING else before
    for field in dataclasses.fields(kind):
        if _lacks(field, given) is not None:
            given[field.name] = _default(field)
    return given


def has_default(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field has a default."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _lacks(field: dataclasses.Field[Any], given: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the unmet need (name, expected value) of a setting that differs from its default, or None."""
    needs = field.metadata.get("needs", _NONE)
    if not needs or given[field.name] == _default(field):
        return None
    for name, wanted in needs.items():
        if not (_RULES[wanted](given[name]) if wanted in _RULES else given[name] == wanted):
            return name, wanted
    return None
