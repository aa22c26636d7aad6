"""Arrays for results of steps. An array is used again once nothing refers to it any more.

Fresh memory costs a page fault per page. For large results these take longer than the copy.
"""

import sys

import numpy as np

MOST_SPARES = 3  # of a result: a loop keeps one or two while the next one is written


def _references(arrays: list[np.ndarray], index: int) -> int:
    return sys.getrefcount(arrays[index])


_UNUSED = _references([np.empty(0)], 0)  # references to an array that only its list holds


class SpareArrays:
    """Arrays (E, ...) of one shape and dtype.

    A tensor of `torch.from_numpy`, its views and what shares their memory keep a reference to the array.
    """

    def __init__(self, like: np.ndarray) -> None:
        self._like = like
        self._spares: list[np.ndarray] = []

    def take(self) -> np.ndarray:
        """Return an array (E, ...) that nothing else refers to; its content is arbitrary."""
        for index in range(len(self._spares)):
            if _references(self._spares, index) == _UNUSED:
                return self._spares[index]
        array = np.empty_like(self._like)
        if len(self._spares) < MOST_SPARES:
            self._spares.append(array)
        return array
