"""Constants of the rules, one row for the batch or one per world: read, changed, drawn anew for every episode."""

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from gpu_envs.buffers import param_fields
from gpu_envs.checks import plain
from gpu_envs.config import MAX_FLOAT
from gpu_envs.definition import Definition
from gpu_envs.errors import ConfigError, described, listed, shown

if TYPE_CHECKING:
    from gpu_envs.core import Core


def read(
    definition: Definition, table: torch.Tensor, num_envs: int, envs: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    """Constants by name out of a table (1 or E, F): each (1,) or (E,), or (W,) of the worlds ``envs``."""
    if envs is not None:
        table = table.expand(num_envs, -1)[envs]
    fields = param_fields(definition.rules.params)
    return {name: table[:, column].clone().view(dtype) for column, (name, dtype) in enumerate(fields.items())}


def changed(core: "Core", table: torch.Tensor, values: Mapping[str, Any]) -> torch.Tensor:
    """A copy of a table with other values; ConfigError as of :meth:`gpu_envs.core.Core.set_params`."""
    fields = param_fields(core.definition.rules.params)
    table = table.clone()
    for name, value in values.items():
        if name not in fields:
            raise ConfigError(f"{core.id}: no constant named {name}; it has {listed(fields)}")
        if name in core.definition.fixed_params:
            raise ConfigError(f"{core.id}: {name} is fixed when the environment is made; make(..., {name}=...)")
        if name in core.randomise:
            raise ConfigError(f"{core.id}: {name} is drawn anew for every episode; make(..., randomise=...)")
        column = _checked(core, name, value, fields[name]).to(core.device)
        if column.ndim and len(table) != core.num_envs:
            table = table.expand(core.num_envs, -1).clone()
        table[:, list(fields).index(name)] = column.view(torch.float32)
    return table


def limits(definition: Definition, config: Any, name: str) -> tuple[float, float]:
    """What a constant may be: as the definition says, else as the setting of its name does."""
    for field in dataclasses.fields(config):
        if field.name == name and name not in definition.bounds:
            low, high = field.metadata.get("low"), field.metadata.get("high")
            return -math.inf if low is None else low, math.inf if high is None else high
    return definition.bounds.get(name, (-math.inf, math.inf))


def finite_limits(definition: Definition, config: Any, name: str) -> tuple[float, float]:
    """The same in numbers; infinite only where the definition declares it."""
    low, high = limits(definition, config, name)
    return (low, high) if name in definition.bounds else (max(low, -MAX_FLOAT), min(high, MAX_FLOAT))


def _checked(core: "Core", name: str, value: Any, dtype: torch.dtype) -> torch.Tensor:
    """A constant of the rules as a tensor () or (E,) of its kind.

    Raises:
        ConfigError: Not a number or a tensor (E,); not finite, not whole where it must be, or outside its limits.
    """
    env_id, num_envs = core.id, core.num_envs
    wanted = f"{'an int' if dtype == torch.int32 else 'a finite number'} or a tensor ({num_envs},) of such"
    try:
        given = torch.as_tensor(value)
        if not plain(given) or given.is_complex():
            raise ValueError
        column = given.to(dtype)
    except (TypeError, ValueError, RuntimeError):
        raise ConfigError(f"{env_id}: {name} must be {wanted}, got {shown(value)}") from None
    if given.shape not in ((), (num_envs,)):
        raise ConfigError(f"{env_id}: {name} must be {wanted}, got {described(given)}")
    low, high = limits(core.definition, core.config, name)
    infinite = math.inf in map(abs, finite_limits(core.definition, core.config, name))
    exact = bool((~column.isnan() if infinite else column.isfinite()).all())
    exact = exact and (dtype != torch.int32 or bool((column == given).all()))
    if not exact:
        raise ConfigError(f"{env_id}: {name} must be {wanted}, got {given.tolist() if given.ndim == 0 else 'others'}")
    if column.min() < low or column.max() > high:
        raise ConfigError(f"{env_id}: {name} must lie in [{low}, {high}], got {column.min():g} to {column.max():g}")
    return column


def check_ranges(env_id: str, definition: Definition, config: Any, ranges: Any) -> dict[str, tuple[float, float]]:
    """Ranges of constants as numbers; None is none.

    Raises:
        ConfigError: Naming the constant, what its range may be and what it is.
    """
    if ranges is None:
        return {}
    if not isinstance(ranges, Mapping):
        raise ConfigError(f"{env_id}: randomise must be a dict, name -> (lowest, highest), got {shown(ranges)}")
    kinds, checked = param_fields(definition.rules.params), {}
    for name, bounds in ranges.items():
        if name not in kinds or name in definition.fixed_params:
            can = listed(kind for kind in kinds if kind not in definition.fixed_params)
            raise ConfigError(f"{env_id}: randomise: no constant named {name} to draw; there are {can}")
        whole = kinds[name] == torch.int32
        try:
            low, high = (int(bound) if whole else float(bound) for bound in bounds)
            good = -(2.0**31) <= low <= high < 2.0**31 and (not whole or (low, high) == tuple(bounds))
        except (TypeError, ValueError, OverflowError):
            good, low, high = False, 0, 0
        if not good:
            numbers = "ints" if whole else "numbers"
            raise ConfigError(
                f"{env_id}: randomise: {name} needs two {numbers}, lowest <= highest, got {shown(bounds)}"
            )
        lowest, highest = limits(definition, config, name)
        if low < lowest or high > highest:
            raise ConfigError(f"{env_id}: randomise: {name} must lie in [{lowest}, {highest}], got {low} to {high}")
        checked[name] = (low, high)
    return checked
