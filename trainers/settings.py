"""Settings that carry what they allow: fields of dataclasses, checked by one function."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from gpu_envs.errors import ConfigError

SEEDS = 2**63
"""Seeds are below this: what torch, JSON and the kernels' 64-bit keys all take."""
_RULES: dict[str, Callable[[Any], bool]] = {
    "> 0": lambda value: value > 0,
    ">= 0": lambda value: value >= 0,
    ">= 1": lambda value: value >= 1,
    ">= 2": lambda value: value >= 2,
    "in [0, 1]": lambda value: 0 <= value <= 1,
    "in (0, 1]": lambda value: 0 < value <= 1,
    "in [0, 2**63)": lambda value: 0 <= value < SEEDS,
}


def setting(default: Any, allowed: str | tuple[str, ...]) -> Any:
    """A dataclass field with a default and what it allows: "> 0" and the like, or a choice of words."""
    return dataclasses.field(default=default, metadata={"allowed": allowed})


def check_settings(config: Any, prefix: str = "") -> None:
    """Checks every field of a dataclass made with `setting`, and that floats are finite; None passes as a default.

    Raises:
        ConfigError: Naming the first field that is wrong, as `prefix` and its name, its value and what is allowed.
    """
    for field in dataclasses.fields(config):
        value, allowed = getattr(config, field.name), field.metadata.get("allowed")
        if value is None and field.default is None:
            continue
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, float) and not math.isfinite(each):
                wanted, good = f"a finite number {allowed or ''}".rstrip(), False
            elif isinstance(allowed, tuple):
                wanted, good = f"one of {', '.join(allowed)}", each in allowed
            else:
                wanted, good = allowed, allowed is None or _RULES[allowed](each)
            if not good:
                raise ConfigError(f"{prefix}{field.name} = {value!r}: expected {wanted}")


def derived_seed(seed: int, index: int) -> int:
    """The seed of the index-th of several streams that one seed gives; in the range of seeds."""
    return (seed * 1009 + index) % SEEDS
