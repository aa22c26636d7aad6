"""Settings: fields of frozen dataclasses that declare their allowed values, and the checks of these values.

The settings of environments (`build_config`), of trainings and leagues (`check_settings`), the options of commands and
single arguments (`check_value`) follow the same rules and give the same messages.
"""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gpu_envs.errors import ConfigError, UnexpectedArgumentError, shown
from gpu_envs.utils.suggestions import foreign_name_hint, similar_names, suggestion

C = TypeVar("C")

MAX_INT = 2**31 - 1
"""Kernels count in int32."""
MAX_SIZE = 2**20
"""Maximum of an environment's int without ``le``, such as a number of agents or a size of buffers and spaces."""
MAX_FLOAT = (2 - 2**-23) * 2.0**127
"""Kernels calculate in float32."""
_WORDS = {int: "an int", float: "a finite number", bool: "True or False", str: "a string"}
_PLURALS = {int: "ints", float: "finite numbers", bool: "bools", str: "strings"}
_HOST_INT = 2**63 - 1
"""Ints that no kernel reads, such as a number of training steps, fit int64."""
_NONE: Mapping[str, Any] = {}
_NAMED_VALUES = {"True": True, "False": False, "None": None}
is_name = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*").fullmatch
"""Whether a text has the form "module:NAME"."""
_DIGITS = re.compile(r"[+-]?\d+(_\d+)+").fullmatch  # Python's underscores, which JSON does not have
_MAX_EXPONENT = 40
"""Larger numbers are never ints that a setting allows; 1e999999999 would not fit into memory."""


# ---------------------------------------------------------------- declarations


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Allowed values of a setting; of every item, if the setting is a tuple."""

    ge: float | None = None
    """Minimum."""
    gt: float | None = None
    """Limit that values must exceed."""
    le: float | None = None
    """Maximum."""
    lt: float | None = None
    """Limit that values must stay below."""
    choices: tuple[Any, ...] = ()
    """Allowed values; empty: any."""
    by_name: bool = False
    """Whether "module:NAME" is allowed, in addition to `choices`."""

    def allow(self, value: Any) -> bool:
        """Return whether a value is allowed."""
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
            and (
                not (self.choices or self.by_name)
                or value in self.choices
                or (self.by_name and isinstance(value, str) and is_name(value) is not None)
            )
        )

    @property
    def low(self) -> float:
        """Lower bound, whether allowed itself or not; -inf without one."""
        return next((bound for bound in (self.ge, self.gt) if bound is not None), -math.inf)

    @property
    def high(self) -> float:
        """Upper bound, whether allowed itself or not; inf without one."""
        return next((bound for bound in (self.le, self.lt) if bound is not None), math.inf)

    def clip(self, value: float) -> float:
        """Return the value between `low` and `high` that is nearest to a value."""
        return min(max(value, self.low), self.high)

    def __str__(self) -> str:
        """Return the allowed values as text, such as ">= 1" or "in (0, 1]"; "" if all are."""
        if self.choices or self.by_name:
            words = [*map(repr, self.choices), *["module:NAME"] * self.by_name]
            return ("one of " if len(words) > 1 else "") + ", ".join(words)
        below = [f"{sign} {_number(bound)}" for sign, bound in ((">=", self.ge), (">", self.gt)) if bound is not None]
        above = [f"{sign} {_number(bound)}" for sign, bound in (("<=", self.le), ("<", self.lt)) if bound is not None]
        if not below or not above:
            return "".join(below or above)
        opening, low = below[0].split()
        closing, high = above[0].split()
        return f"in {'[' if opening == '>=' else '('}{low}, {high}{']' if closing == '<=' else ')'}"


def setting(
    default: Any,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: tuple[Any, ...] = (),
    by_name: bool = False,
    requires: Mapping[str, Any] = _NONE,
    decides: bool = False,
) -> Any:
    """Return a dataclass field with a default and its allowed values.

    An int of an environment without ``le`` may be a size of allocated memory, and is at most ``MAX_SIZE``. A number
    that costs no memory, such as a number of steps, has ``le=MAX_INT``.

    Args:
        default: Default value.
        ge: Minimum.
        gt: Limit that values must exceed.
        le: Maximum.
        lt: Limit that values must stay below.
        choices: Allowed values; empty: any.
        by_name: Allow "module:NAME", an object of the user, see `gpu_envs.definition.id_modules.named_object`.
        requires: Values of other settings without which this one has no effect: name -> value or `Bounds`.
        decides: True for a horizon at which the rules decide the game; `max_episode_steps` does not set it.
    """
    bounds = Bounds(ge=ge, gt=gt, le=le, lt=lt, choices=choices, by_name=by_name)
    return dataclasses.field(default=default, metadata={"requires": requires, "decides": decides, "bounds": bounds})


def bounds_of(field: "dataclasses.Field[Any]") -> Bounds:
    """Return the allowed values of a field; a field without `setting` has no bounds."""
    return field.metadata.get("bounds", Bounds())


# ---------------------------------------------------------------- values as text


def exact_int(text: str) -> int:
    """Return the int that a text denotes exactly, such as "64", "1_000_000", "1e6" or "100.0".

    Raises:
        ValueError: The text denotes no int, such as "1.5"; the error is from ``int(text)``.
    """
    try:
        return int(text)
    except ValueError as error:
        try:
            float(text)  # refuses "1__0", which Decimal accepts
            number = Decimal(text)
        except (ValueError, InvalidOperation):
            raise error from None
        if not number.is_finite() or number.adjusted() > _MAX_EXPONENT or number != number.to_integral_value():
            raise
        return int(number)


def parse_value(text: str) -> Any:
    """Return the value that a text denotes: JSON, True, False or None, or the text itself.

    Lists become tuples. Numbers without a fraction become ints, which are also valid where floats are expected.
    """
    try:
        value = json.loads(text, parse_float=_number_of)
    except ValueError:
        value = _NAMED_VALUES.get(text, _number_of(text) if _DIGITS(text) else text)
    return tuple(value) if isinstance(value, list) else value


def _number_of(text: str) -> int | float:
    try:
        return exact_int(text)
    except ValueError:
        return float(text)


# ---------------------------------------------------------------- checks


def build_config(kind: type[C], values: dict[str, Any], owner: str, arguments: Collection[str] = ()) -> C:
    """Return an environment's config made of keyword arguments, after checks of names, types and bounds.

    Ints must be at most ``MAX_SIZE`` or their ``le``, and floats must fit float32, the type of kernels. Lists become
    tuples.

    Args:
        kind: Config dataclass.
        values: Keyword arguments of the user.
        owner: ID of the environment for messages, such as "SimpleTag-v0".
        arguments: Further argument names of the caller, for suggestions.

    Raises:
        ConfigError: Naming the field, its value and the allowed values; or a setting that differs from its default
            without effect.
        UnexpectedArgumentError: There is no setting of a name.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    free = [name for name in (*fields, *arguments) if name not in values]
    for name, value in values.items():
        hint = foreign_name_hint(kind, name, value, free)
        if name not in fields:
            candidates = [] if hint else free
            message = f"unexpected keyword argument {name!r}; {suggestion(name, candidates, hint=hint)}"
            raise UnexpectedArgumentError(f"{owner}: {message}")
        if hint:
            raise ConfigError(f"{owner}: {name}: expected {bounds_of(fields[name])}, got {shown(value)}; {hint}")
    try:
        config = kind(**{name: _converted(name, v, hints[name], bounds_of(fields[name])) for name, v in values.items()})
        _check_requirements(config)
        return config
    except ConfigError as error:  # of one field, or from __post_init__: rules between fields
        raise ConfigError(f"{owner}: {error}") from None


def check_value(context: str, name: str, value: Any, hint: Any, **bounds: Any) -> Any:
    """Return an argument, checked and converted like a setting of an environment.

    Args:
        context: Start of the message.
        name: Name of the argument.
        value: Given value.
        hint: ``int``, ``float``, ``bool`` or ``str``, each also with ``| None``.
        **bounds: Fields of `Bounds`.

    Raises:
        ConfigError: The type or the value is not allowed.
    """
    try:
        return _converted(name, value, hint, Bounds(**bounds))
    except ConfigError as error:
        raise ConfigError(f"{context}: {error}") from None


def check_settings(config: Any, prefix: str = "", spell: Callable[[str], str] = str) -> None:
    """Check every field of a dataclass: type, bounds, finite floats, and the settings that it requires.

    A default of None passes.

    Args:
        config: Instance.
        prefix: Start of the names in messages.
        spell: Function from the name of a field to its name in messages.

    Raises:
        ConfigError: A field is invalid, or differs from its default without effect. The message names the first one,
            with `prefix`, and the expected value.
    """
    hints = get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value is None and field.default is None:
            continue
        _check(f"{prefix}{spell(field.name)}", value, hints[field.name], bounds_of(field), _HOST_INT, math.inf)
    _check_requirements(config, prefix, spell)


def _check_requirements(config: Any, prefix: str = "", spell: Callable[[str], str] = str) -> None:
    """Raise ConfigError if a setting differs from its default without effect."""
    values = vars(config)
    for field in dataclasses.fields(config):
        if (unmet := unmet_requirement(field, values)) is not None:
            name, requirement = unmet
            label, other = f"{prefix}{spell(field.name)}", f"{prefix}{spell(name)}"
            condition = f"= {requirement!r}"
            if isinstance(requirement, Bounds):
                condition = f"to {requirement}" if requirement.choices else str(requirement)
            raise ConfigError(
                f"{label} = {shown(values[field.name])}: has no effect with {other} = {shown(values[name])}; "
                f"set {other} {condition}, or leave {label} out"
            )


def _converted(name: str, value: Any, hint: Any, bounds: Bounds) -> Any:
    """Return one checked value of an environment, converted where that is lossless."""
    kind, repeated, _ = _type_of(hint)
    if hasattr(value, "tolist"):  # NumPy's and torch's scalars and arrays
        with_value = value
        try:
            value = value.tolist()
        except RuntimeError:  # a sparse tensor, or one without memory
            raise ConfigError(f"{name}: expected {_expectation(hint, bounds)}, got {shown(with_value)}") from None
    if repeated and isinstance(value, list):
        value = tuple(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_FLOAT:
        value = float(value)
    _check(name, value, hint, bounds, MAX_SIZE if bounds.high == math.inf else MAX_INT, MAX_FLOAT)
    return tuple(map(float, value)) if repeated and kind is float and isinstance(value, tuple) else value


def _check(name: str, value: Any, hint: Any, bounds: Bounds, max_int: int, max_float: float) -> None:
    """Raise an error unless a value, or every item of a tuple, has the type and is allowed.

    Args:
        name: Name in the message.
        value: Value.
        hint: Type hint; only numbers, bools, strings and tuples of such are checked.
        bounds: Allowed values.
        max_int: Maximum of the absolute value of an int.
        max_float: Maximum of the absolute value of a float.

    Raises:
        ConfigError: See above.
    """
    kind, repeated, optional = _type_of(hint)
    if optional and value is None:
        return

    def refuse(more: str = "") -> ConfigError:
        names = [choice for choice in bounds.choices if isinstance(choice, str)]
        similar = similar_names(value, names) if isinstance(value, str) else []
        ending = f"; did you mean {similar[0]!r}?" if similar else ""
        return ConfigError(f"{name}: expected {_expectation(hint, bounds, more)}, got {shown(value)}{ending}")

    if repeated:
        if not isinstance(value, tuple):
            raise refuse()
        for index, item in enumerate(value):
            _check(f"{name}[{index}]", item, kind, bounds, max_int, max_float)
        return
    if kind is not None and not _is(value, kind):
        raise refuse()
    if isinstance(value, float) and not math.isfinite(value):
        raise refuse()
    if not bounds.allow(value):
        raise refuse()
    if isinstance(value, int) and abs(value) > max_int:
        raise refuse(f" of at most {_number(max_int)} in size")
    if isinstance(value, float) and abs(value) > max_float:
        raise refuse(f" of at most {max_float:.10g} in size")


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, int | float if kind is float else kind) and (kind is bool or not isinstance(value, bool))


def _type_of(hint: Any) -> tuple[type | None, bool, bool]:
    """Return the checked type of a field, whether the field is a tuple of it, and whether it may be None.

    The type is None if the field is neither a number, bool or string nor a tuple of such.
    """
    parts = list(get_args(hint)) if get_origin(hint) in (UnionType, Union) else [hint]
    types = [part for part in parts if part is not type(None)]
    optional, repeated = len(types) < len(parts), False
    if len(types) == 1 and get_origin(types[0]) is tuple:
        types, repeated = list({part for part in get_args(types[0]) if part is not ...}), True
    kind = types[0] if len(types) == 1 and types[0] in _WORDS else None
    return kind, repeated and kind is not None, optional


def _expectation(hint: Any, bounds: Bounds, more: str = "") -> str:
    """Return the allowed values of a field in words."""
    kind, repeated, optional = _type_of(hint)
    if bounds.choices or bounds.by_name:
        words = str(bounds)
    else:
        noun = f"a list of {_PLURALS[kind]}" if repeated and kind else _WORDS.get(kind, "a value")  # type: ignore[arg-type]
        words = f"{noun} {bounds}".rstrip()
    return f"{words}{more}{', or None' if optional else ''}"


def _number(value: float) -> str:
    """Return a bound as text, int64's as powers of two."""
    return {2**63: "2**63", _HOST_INT: "2**63 - 1"}.get(value, f"{value}") if isinstance(value, int) else f"{value}"


# ---------------------------------------------------------------- defaults and requirements


def has_default(field: "dataclasses.Field[Any]") -> bool:
    """Return whether a field has a default."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """Return the default of a field that has one."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def unmet_requirement(field: "dataclasses.Field[Any]", values: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the unmet requirement (name, value or bounds) of a setting that differs from its default, or None."""
    requires = field.metadata.get("requires", _NONE)
    if not requires or values[field.name] == default_of(field):
        return None
    for name, requirement in requires.items():
        value = values[name]
        if isinstance(requirement, Bounds):
            is_met = requirement.allow(value)
        else:  # a class "module:NAME" may be derived from the required one
            is_met = value == requirement or (isinstance(value, str) and ":" in value)
        if not is_met:
            return name, requirement
    return None


def complete_settings(kind: type[Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recorded run as the present dataclass needs them; it may have changed since.

    Missing settings, and settings without effect, get their default.
    """
    settings = {field.name: default_of(field) for field in dataclasses.fields(kind) if has_default(field)}
    settings.update(recorded)
    for field in dataclasses.fields(kind):
        if unmet_requirement(field, settings) is not None:
            settings[field.name] = default_of(field)
    return settings
