"""Options of a reset that widen or narrow the start, under Gymnasium's names and with its defaults."""

import math
from typing import Any

from gpu_envs.errors import ConfigError, shown

BOUNDS = ("low", "high")
"""Names of the options that :func:`bounds` reads."""


def number(options: dict[str, Any], name: str, default: float) -> float:
    """An option as a float.

    Raises:
        ConfigError: It is no finite number.
    """
    try:
        value = float(options.get(name, default))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f"options[{name!r}] must be a finite number, got {shown(options[name])}")
    return value


def bounds(options: dict[str, Any], low: float, high: float) -> dict[str, float]:
    """The constants start_low and start_high that the options "low" and "high" ask for; none if they are not there.

    Args:
        options: Of a reset.
        low: Usual start_low.
        high: Usual start_high.

    Raises:
        ConfigError: One is no finite number, or low > high.
    """
    if "low" not in options and "high" not in options:
        return {}
    low, high = number(options, "low", low), number(options, "high", high)
    if low > high:
        raise ConfigError(f"options['low'] must be at most options['high'], got {low} and {high}")
    return {"start_low": low, "start_high": high}
