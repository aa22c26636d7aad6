"""An executor as unkind as one may be: in this process, but everything travels, and nothing comes in order."""

from __future__ import annotations

import pickle
import random
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from league import player
from league.executors import Call, calls, packed, unpacked


class Shuffled:
    """Does calls in any order, each on some worker with caches of its own, now and then twice."""

    remote = True

    def __init__(self, workers: int = 3, seed: int = 0) -> None:
        """Nothing to do yet."""
        self.draw = random.Random(seed)
        self.caches: list[tuple[Any, Any]] = [(OrderedDict(), OrderedDict()) for _ in range(workers)]
        self.waiting: list[tuple[str, bytes]] = []
        self.order: list[str] = []

    @property
    def pending(self) -> int:
        """Calls that were not given back."""
        return len(self.waiting)

    def device(self, asked: str | None) -> str:
        """The processor."""
        return asked or "cpu"

    def submit(self, call: Call) -> None:
        """Packs it."""
        what = (call.function, packed(dict(call.pools)), packed(dict(call.arguments)), call.device)
        self.waiting.append((call.key, pickle.dumps(what)))

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Does one of them; now and then several results are there at once."""
        if within is not None and self.draw.random() < 0.5:
            return None
        key, what = self.waiting.pop(self.draw.randrange(len(self.waiting)))
        found = self.work(what)
        if self.draw.random() < 0.3:  # the result was lost, somebody else does it again
            found = self.work(what)
        self.order.append(key)
        return key, unpacked(pickle.loads(found), "cpu")

    def work(self, what: bytes) -> bytes:
        """A worker's part."""
        function, pools, arguments, device = pickle.loads(what)
        with self.worker():
            return pickle.dumps(packed(function(unpacked(pools, device), **unpacked(arguments, device))))

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Any of them: what it keeps is not what others keep."""
        own = player._TRAININGS, calls._LOADED
        player._TRAININGS, calls._LOADED = self.draw.choice(self.caches)
        try:
            yield
        finally:
            player._TRAININGS, calls._LOADED = own

    def cancel(self) -> None:
        """Forgets all."""
        self.waiting.clear()

    def close(self) -> None:
        """Likewise."""
        self.cancel()
