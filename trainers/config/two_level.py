"""Check the settings of two-level trainings: clocks of decisions, phases of learning, annealed parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core

__all__ = ["anneal_parameters", "check_two_level"]


def check_two_level(
    decide_every: Mapping[str, Any], learn_after: Mapping[str, Any], anneal: Mapping[str, Any], total_steps: int
) -> None:
    """Check the values of `TrainConfig.decide_every`, `learn_after` and `anneal`.

    Raises:
        ConfigError: A value is invalid. The message names the field and the key.
    """
    for field, values, low, high in (
        ("decide_every", decide_every, 1, math.inf),
        ("learn_after", learn_after, 0, total_steps - 1),
    ):
        for name, value in values.items():
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                more = "" if high == math.inf else f" to {high}, fewer than total_steps"
                raise ConfigError(f"{field}[{name}]: expected an int from {low}{more}, got {value!r:.80}")
    for name, values in anneal.items():
        numbers = list(values) if isinstance(values, list | tuple) else []
        good = len(numbers) == 3 and all(isinstance(each, int | float) for each in numbers)
        if not good or not all(map(math.isfinite, numbers)) or numbers[2] <= 0:
            raise ConfigError(
                f"anneal[{name}]: expected the first value, the last value and the steps between them, such as "
                f"[0.0, 1.0, 100000], got {values!r:.80}"
            )


def anneal_parameters(core: Core, schedules: Mapping[str, Sequence[float]], steps: int) -> None:
    """Set the environment parameters of `TrainConfig.anneal` to their values after a number of environment steps.

    Raises:
        ConfigError: The environment has no such parameter, or does not accept the value.
    """
    values: dict[str, float] = {}
    for name, (first, last, length) in schedules.items():
        values[name] = last if steps >= length else first + (last - first) * (steps / length)
    if values:
        core.set_params(**values)
