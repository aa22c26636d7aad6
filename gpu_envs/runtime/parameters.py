"""Environment parameters, one row for the batch or one per world: reading, changing and randomization ranges."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any

import torch

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.definition.struct_buffers import param_fields
from gpu_envs.errors import ConfigError, describe_tensor, shown
from gpu_envs.utils.settings import MAX_FLOAT, bounds_of
from gpu_envs.utils.suggestions import unknown_name_message
from gpu_envs.utils.tensor_checks import plain


def read(
    definition: EnvDefinition, table: torch.Tensor, num_envs: int, envs: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    """Return the parameters of a table (1 or E, F) by name: each (1,) or (E,), or (W,) of the worlds ``envs``."""
    if envs is not None:
        table = table.expand(num_envs, -1)[envs]
    fields = param_fields(definition.rules.params)
    return {name: table[:, column].clone().view(dtype) for column, (name, dtype) in enumerate(fields.items())}


def changed(
    env_id: str,
    definition: EnvDefinition,
    config: Any,
    table: torch.Tensor,
    values: Mapping[str, Any],
    *,
    num_envs: int,
    randomized: Collection[str],
) -> torch.Tensor:
    """Return a copy of a table with other values.

    Args:
        env_id: ID of the environment, for messages.
        definition: Definition of the environment.
        config: Settings of the environment.
        table: (1, F) or (E, F) float32.
        values: Numbers or tensors (E,) by name.
        num_envs: Number of worlds E.
        randomized: Parameters that every episode samples, and which cannot be set.

    Raises:
        ConfigError: See :meth:`gpu_envs.runtime.core.Core.set_params`.
    """
    fields = param_fields(definition.rules.params)
    table = table.clone()
    for name, value in values.items():
        if name not in fields:
            raise ConfigError(f"{env_id}: {unknown_name_message('parameter', name, fields)}")
        if name in definition.fixed_params:
            is_setting = name in {field.name for field in dataclasses.fields(config)}
            remedy = f"make(..., {name}=...)" if is_setting else "it follows from other settings"
            raise ConfigError(f"{env_id}: {name} is fixed when the environment is made; {remedy}")
        if name in randomized:
            raise ConfigError(f"{env_id}: {name} is sampled in every episode; make(..., domain_randomization=...)")
        allowed = limits(definition, config, name), finite_limits(definition, config, name)
        column = _checked(env_id, name, value, fields[name], num_envs, *allowed).to(table.device)
        if column.ndim and len(table) != num_envs:
            table = table.expand(num_envs, -1).clone()
        table[:, list(fields).index(name)] = column.view(torch.float32)
    return table


def limits(definition: EnvDefinition, config: Any, name: str) -> tuple[float, float]:
    """Return the bounds of a parameter from the definition, else from the setting of its name."""
    for field in dataclasses.fields(config):
        if field.name == name and name not in definition.bounds:
            return bounds_of(field).low, bounds_of(field).high
    return definition.bounds.get(name, (-math.inf, math.inf))


def finite_limits(definition: EnvDefinition, config: Any, name: str) -> tuple[float, float]:
    """Return the bounds as finite numbers, except where the definition declares infinite ones."""
    low, high = limits(definition, config, name)
    return (low, high) if name in definition.bounds else (max(low, -MAX_FLOAT), min(high, MAX_FLOAT))


def _checked(
    env_id: str,
    name: str,
    value: Any,
    dtype: torch.dtype,
    num_envs: int,
    limits: tuple[float, float],
    finite_limits: tuple[float, float],
) -> torch.Tensor:
    """Return a parameter's new value as a tensor () or (E,) of its dtype.

    Raises:
        ConfigError: The value is not a number or a tensor (E,), not finite, not an int where one is needed, or outside
            its bounds.
    """
    expected = f"{'an int' if dtype == torch.int32 else 'a finite number'} or a tensor ({num_envs},) of such"
    try:
        tensor = torch.as_tensor(value)
        if not plain(tensor) or tensor.is_complex():
            raise ValueError
        column = tensor.to(dtype)
    except (TypeError, ValueError, RuntimeError):
        raise ConfigError(f"{env_id}: {name}: expected {expected}, got {shown(value)}") from None
    if tensor.shape not in ((), (num_envs,)):
        raise ConfigError(f"{env_id}: {name}: expected {expected}, got {describe_tensor(tensor)}")
    low, high = limits
    infinite = math.inf in map(abs, finite_limits)
    exact = bool((~column.isnan() if infinite else column.isfinite()).all())
    exact = exact and (dtype != torch.int32 or bool((column == tensor).all()))
    if not exact:
        raise ConfigError(
            f"{env_id}: {name}: expected {expected}, got {tensor.tolist() if tensor.ndim == 0 else 'other values'}"
        )
    if column.min() < low or column.max() > high:
        raise ConfigError(
            f"{env_id}: {name}: expected values in [{low}, {high}], got {column.min():g} to {column.max():g}"
        )
    return column


def check_ranges(env_id: str, definition: EnvDefinition, config: Any, ranges: Any) -> dict[str, tuple[float, float]]:
    """Return checked randomization ranges by parameter; {} for None.

    Raises:
        ConfigError: Naming the parameter, its allowed range and the given one.
    """
    if ranges is None:
        return {}
    if not isinstance(ranges, Mapping):
        raise ConfigError(
            f"{env_id}: domain_randomization: expected a dict, name -> (lowest, highest), got {shown(ranges)}"
        )
    kinds, checked = param_fields(definition.rules.params), {}
    for name, bounds in ranges.items():
        if name not in kinds or name in definition.fixed_params:
            can = [kind for kind in kinds if kind not in definition.fixed_params]
            raise ConfigError(f"{env_id}: domain_randomization: {unknown_name_message('parameter', name, can)}")
        is_integer = kinds[name] == torch.int32
        try:
            low, high = (int(bound) if is_integer else float(bound) for bound in bounds)
            good = -(2.0**31) <= low <= high < 2.0**31 and (not is_integer or (low, high) == tuple(bounds))
        except (TypeError, ValueError, OverflowError):
            good, low, high = False, 0, 0
        if not good:
            numbers = "ints" if is_integer else "numbers"
            raise ConfigError(
                f"{env_id}: domain_randomization: {name} needs two {numbers}, lowest <= highest, got {shown(bounds)}"
            )
        lowest, highest = limits(definition, config, name)
        if low < lowest or high > highest:
            raise ConfigError(
                f"{env_id}: domain_randomization: {name}: expected values in [{lowest}, {highest}], got {low} to {high}"
            )
        checked[name] = (low, high)
    return checked
