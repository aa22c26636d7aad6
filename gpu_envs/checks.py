"""What a core refuses before anything is allocated or launched, each in one line."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from gpu_envs.buffers import param_fields
from gpu_envs.definition import Definition
from gpu_envs.errors import ActionError, ConfigError, described, listed
from gpu_envs.layout import AUTORESET
from warp_kernels import philox
from warp_kernels.schedules import Rules


def check_tensor(
    env_id: str, name: str, value: Any, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    """Refuse a tensor that does not fit.

    Raises:
        ActionError: Naming what was expected and what was given.
    """
    if (
        not isinstance(value, torch.Tensor)
        or tuple(value.shape) != shape
        or value.dtype != dtype
        or value.device != device
    ):
        wanted = f"a {dtype} tensor {shape} on {device}"
        raise ActionError(f"{env_id}: {name} must be {wanted}, got {described(value)}")


def check_frame(env_id: str, envs: Any, num_envs: int, size: Any) -> tuple[int, ...]:
    """Indices of worlds to draw, one or several.

    Raises:
        ConfigError: No world, one that is not there, or a size that is none.
    """
    several = (envs,) if isinstance(envs, (int, np.integer)) else envs
    try:
        rows = tuple(int(env) if isinstance(env, np.integer) else env for env in several)
    except TypeError:
        rows = ()
    if not rows or not all(isinstance(env, int) and 0 <= env < num_envs for env in rows):
        raise ConfigError(f"{env_id}: envs must be indices of worlds in [0, {num_envs}), got {envs!r}")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ConfigError(f"{env_id}: size must be an int >= 1 [pixels], got {size!r}")
    return rows


def check_constant(env_id: str, config: Any, name: str, value: Any, dtype: torch.dtype, num_envs: int) -> torch.Tensor:
    """A constant of the rules as a tensor () or (E,) of its kind.

    Raises:
        ConfigError: Not a number or a tensor (E,); not finite, not whole where it must be, or outside the bounds of the
            setting of the same name.
    """
    wanted = f"{'an int' if dtype == torch.int32 else 'a finite number'} or a tensor ({num_envs},) of such"
    try:
        given = torch.as_tensor(value)
        column = given.to(dtype)
    except (TypeError, ValueError, RuntimeError):
        raise ConfigError(f"{env_id}: {name} must be {wanted}, got {value!r}") from None
    if given.shape not in ((), (num_envs,)):
        raise ConfigError(f"{env_id}: {name} must be {wanted}, got {described(given)}")
    exact = bool(column.isfinite().all()) and (dtype != torch.int32 or bool((column == given).all()))
    if not exact:
        raise ConfigError(f"{env_id}: {name} must be {wanted}, got {given.tolist() if given.ndim == 0 else 'others'}")
    for field in dataclasses.fields(config):
        if field.name == name:
            low, high = field.metadata.get("low"), field.metadata.get("high")
            if (low is not None and column.min() < low) or (high is not None and column.max() > high):
                spread = f"[{-math.inf if low is None else low}, {math.inf if high is None else high}]"
                raise ConfigError(f"{env_id}: {name} must lie in {spread}, got {column.min():g} to {column.max():g}")
    return column


def check_settings(
    env_id: str, rules: Rules, num_envs: Any, autoreset: Any, env_offset: Any, illegal: Any, schedule: Any, threads: Any
) -> None:
    """Refuse settings that the runner cannot carry out.

    Raises:
        ConfigError: Naming the setting, what it may be and what it is.
    """

    def demand(good: bool, name: str, wanted: str, value: Any) -> None:
        if not good:
            raise ConfigError(f"{env_id}: {name} must be {wanted}, got {value!r}")

    def whole(value: Any, low: int) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= low

    worlds = 2**31 - 1  # the kernels count them in 32 bits, and so does the random stream
    demand(whole(num_envs, 1) and num_envs <= worlds, "num_envs", f"an int in [1, {worlds}]", num_envs)
    demand(
        whole(env_offset, 0) and env_offset + num_envs <= worlds, "env_offset", f"an int in [0, {worlds} - num_envs]",
        env_offset,
    )  # fmt: skip
    modes = ", ".join(map(repr, AUTORESET))
    demand(isinstance(autoreset, str) and autoreset in AUTORESET, "autoreset", f"one of {modes}", autoreset)
    demand(schedule in (None, "fused", "phased"), "schedule", "'fused', 'phased' or None", schedule)
    demand(threads is None or whole(threads, 1), "threads", "an int >= 1 or None", threads)
    losing = "'error', or 'loss' where agents take turns"
    demand(illegal == "error" or (illegal == "loss" and rules.turn_based), "illegal", losing, illegal)
    demand(rules.masked or not rules.turn_based, "rules.masked", "True where agents take turns", rules.masked)
    agents, components = rules.num_agents, rules.action_size
    demand(agents > 1 or not rules.turn_based, "the number of agents", ">= 2 where agents take turns", agents)
    demand(agents <= philox.MAX_AGENTS, "the number of agents", f"<= {philox.MAX_AGENTS}", agents)
    demand(components <= philox.MAX_DRAWS, "the number of action components", f"<= {philox.MAX_DRAWS}", components)


def check_ranges(env_id: str, definition: Definition, ranges: Any) -> dict[str, tuple[float, float]]:
    """Ranges of constants as numbers; None is none.

    Raises:
        ConfigError: Naming the constant, what its range may be and what it is.
    """
    if ranges is None:
        return {}
    if not isinstance(ranges, Mapping):
        raise ConfigError(f"{env_id}: randomise must be a dict, name -> (lowest, highest), got {ranges!r}")
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
            raise ConfigError(f"{env_id}: randomise: {name} needs two {numbers}, lowest <= highest, got {bounds!r}")
        checked[name] = (low, high)
    return checked
