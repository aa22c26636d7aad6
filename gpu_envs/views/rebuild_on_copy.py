"""Copies of environments: pickling and ``copy.deepcopy`` make them anew from their arguments."""

from typing import Any

from gymnasium.utils import EzPickle


class Anew(EzPickle):
    """An environment whose copies are made anew, keep its ``spec`` and need a reset.

    ``Anew.__init__(self, *arguments)`` takes the arguments of the class. A deep copy is made from the same arguments,
    not from copies of them: a model among them is shared (torch refuses to copy one that is learning).
    """

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"spec": getattr(self, "spec", None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # in place: EzPickle's own makes a second environment, whose end would close what the two share
        self.__init__(*state["_ezpickle_args"], **state["_ezpickle_kwargs"])
        if state["spec"] is not None:
            self.spec = state["spec"]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Anew":
        twin = type(self).__new__(type(self))
        twin.__setstate__(self.__getstate__())
        return twin
