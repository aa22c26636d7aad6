"""Specs of the Gymnasium views, with the actual time limit and JSON arguments, and copies rebuilt from arguments."""

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any

from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import EzPickle

from gpu_envs.utils.settings import MAX_INT

POLICY = "policy "
"""Prefix of the name of a policy."""


class PolicyName(str):
    """Policy among the arguments of a spec: a string in JSON, the policy itself for ``gymnasium.make(spec)``."""

    policy: Any
    """Policy that is named."""

    def __new__(cls, policy: Any) -> "PolicyName":
        """Name a policy by its module and qualified name."""
        owner = policy if hasattr(policy, "__qualname__") else type(policy)
        name = super().__new__(cls, f"{POLICY}{owner.__module__}.{owner.__qualname__}")
        name.policy = policy
        return name

    def __call__(self, *inputs: Any) -> Any:
        """Call the policy."""
        return self.policy(*inputs)

    def __deepcopy__(self, memo: dict[int, Any]) -> "PolicyName":
        return self  # a model is shared: torch cannot copy a model in training

    def __reduce__(self) -> Any:
        return PolicyName, (self.policy,)


class SpecInForce:
    """Attribute ``spec`` of a view with a ``core``: the spec from Gymnasium with two changes.

    ``max_episode_steps`` is the limit of the core. It is None if there is no limit, or if Gymnasium's ``TimeLimit``
    truncates the episodes. The arguments are JSON values: policies become a :class:`PolicyName`.
    """

    def __get__(self, env: Any, owner: type) -> Any:
        """Return the spec, or None if the environment was not created by Gymnasium."""
        return None if env is None else env.__dict__.get("_spec")

    def __set__(self, env: Any, spec: EnvSpec | None) -> None:
        """Set the spec, with the core's time limit and JSON arguments."""
        if spec is not None:
            steps = env.core.definition.max_episode_steps
            limit = steps if 0 < steps < MAX_INT else None
            spec = dataclasses.replace(spec, max_episode_steps=limit, kwargs=_as_json(spec.kwargs))
        env.__dict__["_spec"] = spec


def _as_json(value: Any) -> Any:
    """Return a value that JSON can represent."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "tolist"):  # arrays and tensors
        return value.tolist()
    return PolicyName(value) if callable(value) or hasattr(value, "act") else str(value)


class RebuildOnCopy(EzPickle):
    """Base of environments whose copies are rebuilt from their arguments, keep their ``spec`` and need a reset.

    ``RebuildOnCopy.__init__(self, *arguments)`` takes the arguments of the class. A deep copy uses the same argument
    objects: a model among them is shared, because torch cannot copy a model in training.
    """

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"spec": getattr(self, "spec", None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # In place: EzPickle would build a second environment, whose deletion would close shared resources.
        self.__init__(*state["_ezpickle_args"], **state["_ezpickle_kwargs"])
        if state["spec"] is not None:
            self.spec: Any = state["spec"]

    def __deepcopy__(self, memo: dict[int, Any]) -> "RebuildOnCopy":
        twin = type(self).__new__(type(self))
        twin.__setstate__(self.__getstate__())
        return twin
