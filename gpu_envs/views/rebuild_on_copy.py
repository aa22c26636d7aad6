"""Copies of environments: pickling and ``copy.deepcopy`` rebuild them from their arguments."""

from typing import Any

from gymnasium.utils import EzPickle

__all__ = ["RebuildOnCopy"]


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
