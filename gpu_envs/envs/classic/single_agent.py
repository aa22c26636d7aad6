"""Definitions of environments with one agent, as in Gymnasium, and the options of their resets."""

import math
from typing import Any

from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.errors import ConfigError, shown

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


def define(
    config: Any,
    observation: spaces.Box,
    action: spaces.Space[Any],
    start: tuple[float, float] | None = None,
    **fields: Any,
) -> EnvDefinition:
    """Return the definition of an environment with one agent.

    Args:
        config: Config of the environment.
        observation: Observation space.
        action: Action space.
        start: Range of the initial state, which the options "low" and "high" of a reset change; None: no such options.
        **fields: Further fields of :class:`gpu_envs.definition.environment.EnvDefinition`.
    """
    if start is not None:
        fields |= {"reset_options": lambda options: bounds(options, *start), "reset_option_names": BOUNDS}
    return EnvDefinition(
        agents=("agent_0",),
        groups={"agent": (0,)},
        observation_spaces={"agent_0": observation},
        action_spaces={"agent_0": action},
        max_episode_steps=config.max_episode_steps,
        time_limit_terminates=False,
        **{"state": {"motion": ()}, **fields},
    )
