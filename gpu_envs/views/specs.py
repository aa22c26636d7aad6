"""``spec`` of Gymnasium's views: it tells the time limit in force, and can be written as JSON."""

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from gymnasium.envs.registration import EnvSpec

from gpu_envs.config import MAX_INT

POLICY = "policy "
"""How the name of a policy begins."""


class PolicyName(str):
    """A policy among the arguments of a spec: a string for JSON, and still the policy for ``gymnasium.make(spec)``."""

    policy: Callable
    """What it names."""

    def __new__(cls, policy: Callable) -> "PolicyName":
        """Name a policy by where it is defined."""
        owner = policy if hasattr(policy, "__qualname__") else type(policy)
        name = super().__new__(cls, f"{POLICY}{owner.__module__}.{owner.__qualname__}")
        name.policy = policy
        return name

    def __call__(self, *seen: Any) -> Any:
        """Act as the policy does."""
        return self.policy(*seen)

    def __deepcopy__(self, memo: dict[int, Any]) -> "PolicyName":
        return self  # a model is shared: torch refuses to copy one that is learning

    def __reduce__(self) -> Any:
        return PolicyName, (self.policy,)


class SpecInForce:
    """The attribute ``spec`` of a view with a ``core``. What Gymnasium sets is kept with two changes.

    ``max_episode_steps`` is the limit of the core, whatever settings it comes from; None where there is none, or where
    Gymnasium's ``TimeLimit`` cuts and tells it. The arguments are JSON: policies become a :class:`PolicyName`.
    """

    def __get__(self, env: Any, owner: type) -> Any:
        """The spec; None where the environment was not made by Gymnasium."""
        return None if env is None else env.__dict__.get("_spec")

    def __set__(self, env: Any, spec: EnvSpec | None) -> None:
        """Keep a spec."""
        if spec is not None:
            steps = env.core.definition.max_steps
            limit = steps if 0 < steps < MAX_INT else None
            spec = dataclasses.replace(spec, max_episode_steps=limit, kwargs=_as_json(spec.kwargs))
        env.__dict__["_spec"] = spec


def _as_json(value: Any) -> Any:
    """A value as JSON keeps it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "tolist"):  # NumPy's and torch's
        return value.tolist()
    return PolicyName(value) if callable(value) else str(value)
