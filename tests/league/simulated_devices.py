"""Devices with a simulated clock: tasks run at once in this process, and take the time that a test gives them."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

from league.executors.tasks import RemoteTask


class SimulatedDevices:
    """Run tasks on devices, one at a time on each, first come first served.

    The coordinator takes no time. A device is busy from the start of a task to its end.
    """

    remote = True

    def __init__(self, devices: int, seconds: Callable[[str], float]) -> None:
        """Create free devices.

        Args:
            devices: Number of devices.
            seconds: Function from the key of a task to its duration.
        """
        self.free = devices
        self.devices = devices
        self.seconds = seconds
        self.clock = 0.0
        self.busy = 0.0
        self.queue: deque[RemoteTask] = deque()
        self.running: list[tuple[float, int, RemoteTask]] = []
        self.started = 0

    @property
    def utilization(self) -> float:
        """Share of the devices' time in which they had a task."""
        return self.busy / (self.devices * self.clock)

    @property
    def pending(self) -> int:
        """Number of tasks whose results were not returned."""
        return len(self.queue) + len(self.running)

    def device(self, name: str | None) -> str:
        """Return the CPU by default."""
        return name or "cpu"

    def submit(self, task: RemoteTask) -> None:
        """Start a task on a free device, or queue it."""
        self.queue.append(task)
        self._start()

    def _start(self) -> None:
        while self.free and self.queue:
            task, self.free, self.started = self.queue.popleft(), self.free - 1, self.started + 1
            heapq.heappush(self.running, (self.clock + self.seconds(task.key), self.started, task))

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Move the clock to the next end of a task, and return its key and result."""
        if within is not None and (not self.running or self.running[0][0] > self.clock):
            return None
        end, _, task = heapq.heappop(self.running)
        self.busy += self.seconds(task.key)
        self.clock, self.free = end, self.free + 1
        self._start()
        return task.key, task.function(task.policies, **task.arguments)

    def cancel(self) -> None:
        """Remove all tasks."""
        self.free += len(self.running)
        self.queue.clear()
        self.running.clear()

    def close(self) -> None:
        """Remove all tasks."""
        self.cancel()
