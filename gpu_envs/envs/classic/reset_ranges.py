"""Reset options for the range of the initial state, with the names and defaults of Gymnasium."""

import math
from typing import Any

from gpu_envs.errors import ConfigError, shown

__all__ = ["BOUNDS", "bounds", "number"]

BOUNDS = ("low", "high")
"""Names of the options of :func:`bounds`."""


def number(options: dict[str, Any], name: str, default: float) -> float:
    """Return an option as a float.

    Raises:
        ConfigError: The value is not a finite number.
    """
    try:
        value = float(options.get(name, default))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f"options[{name!r}]: expected a finite number, got {shown(options[name])}")
    return value


def bounds(options: dict[str, Any], low: float, high: float) -> dict[str, float]:
    """Return the parameters start_low and start_high of the options "low" and "high"; an empty dict without them.

    Args:
        options: Options of the reset.
        low: Default of start_low.
        high: Default of start_high.

    Raises:
        ConfigError: An option is not a finite number, or low > high.
    """
    if "low" not in options and "high" not in options:
        return {}
    low, high = number(options, "low", low), number(options, "high", high)
    if low > high:
        raise ConfigError(f"options['low']: expected at most options['high'], got {low} and {high}")
    return {"start_low": low, "start_high": high}
