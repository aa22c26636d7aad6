"""A mapping that keeps the entries used last."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping, Sized
from typing import TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")


class LRUCache(MutableMapping[K, V]):
    """Mapping that drops its least recently used entries above a number of entries or of bytes.

    Reading and writing an entry make it the most recently used one, which is never dropped. Not safe for several
    threads at once.

    Args:
        max_items: Maximum number of entries; None for no limit.
        max_bytes: Maximum sum of the lengths of values [bytes]; None for no limit.
    """

    def __init__(self, max_items: int | None = None, max_bytes: int | None = None) -> None:
        self.max_items: int | None = max_items
        self.max_bytes: int | None = max_bytes
        self._entries: OrderedDict[K, V] = OrderedDict()  # the most recently used last
        self._bytes = 0

    def __getitem__(self, key: K) -> V:
        value = self._entries[key]
        self._entries.move_to_end(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        self._entries[key] = value
        if self.max_bytes is not None:
            self._bytes += len(cast(Sized, value))
        self.trim(self.max_items)

    def __delitem__(self, key: K) -> None:
        value = self._entries.pop(key)
        if self.max_bytes is not None:
            self._bytes -= len(cast(Sized, value))

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; make and keep it where it is missing."""
        if key not in self._entries:
            self[key] = make()
        return self[key]

    def trim(self, max_items: int | None) -> None:
        """Drop the least recently used entries above ``max_items`` and above ``max_bytes``; one always stays."""
        while len(self) > 1 and (
            (max_items is not None and len(self) > max_items)
            or (self.max_bytes is not None and self._bytes > self.max_bytes)
        ):
            del self[next(iter(self._entries))]
