"""An adversarial executor for tests: in this process, with transport, random order and repeated tasks."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpu_envs.utils.lru_cache import LRUCache
from league.executors import transport
from league.executors.tasks import RemoteTask
from league.executors.transport import packed, unpacked
from league.leagues import training_group


class Shuffled:
    """Run tasks in random order, each on a random worker with its own caches, sometimes twice."""

    remote = True

    def __init__(self, workers: int = 3, seed: int = 0) -> None:
        """Create an executor without tasks."""
        self.draw = random.Random(seed)
        self.caches: list[tuple[Any, Any]] = [(LRUCache(max_items=256), LRUCache(max_items=64)) for _ in range(workers)]
        self.waiting: list[tuple[str, bytes]] = []
        self.order: list[str] = []

    @property
    def pending(self) -> int:
        """Number of tasks whose results were not returned."""
        return len(self.waiting)

    def device(self, name: str | None) -> str:
        """Return the CPU by default."""
        return name or "cpu"

    def submit(self, task: RemoteTask) -> None:
        """Pack a task."""
        call = (task.function, packed(dict(task.policies)), packed(dict(task.arguments)), task.device)
        self.waiting.append((task.key, pickle.dumps(call)))

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Run a random task; sometimes several results are available at once."""
        if within is not None and self.draw.random() < 0.5:
            return None
        key, call = self.waiting.pop(self.draw.randrange(len(self.waiting)))
        result = self.work(call)
        if self.draw.random() < 0.3:  # the result was lost, another worker repeats the task
            result = self.work(call)
        self.order.append(key)
        return key, unpacked(pickle.loads(result), "cpu")

    def work(self, call: bytes) -> bytes:
        """Run a packed task as a worker does."""
        function, pools, arguments, device = pickle.loads(call)
        with self.worker():
            return pickle.dumps(packed(function(unpacked(pools, device), **unpacked(arguments, device))))

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Use the caches of a random worker."""
        caches = training_group._TRAININGS, transport._LOADED
        training_group._TRAININGS, transport._LOADED = self.draw.choice(self.caches)
        try:
            yield
        finally:
            training_group._TRAININGS, transport._LOADED = caches

    def cancel(self) -> None:
        """Remove all tasks."""
        self.waiting.clear()

    def close(self) -> None:
        """Remove all tasks."""
        self.cancel()
