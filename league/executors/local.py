"""The executor that runs tasks in this process."""

from __future__ import annotations

from collections import deque
from typing import Any

from gpu_envs.utils.devices import resolve_device
from league.executors.remote_task import RemoteTask

__all__ = ["LocalExecutor"]


class LocalExecutor:
    """Run tasks in this process, one after the other, when their results are requested."""

    remote = False

    def __init__(self) -> None:
        """Create an executor without tasks."""
        self._tasks: deque[RemoteTask] = deque()

    def device(self, name: str | None) -> str:
        """Return a device of this machine, see `Executor.device`."""
        return str(resolve_device(name))

    @property
    def pending(self) -> int:
        """Number of tasks that did not run."""
        return len(self._tasks)

    def submit(self, task: RemoteTask) -> None:
        """Append a task to the queue."""
        self._tasks.append(task)

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Run the first task and return its key and result; return None at once if `within` is given."""
        if within is not None:
            return None
        task = self._tasks.popleft()
        progress = {} if task.progress is None else {"progress": task.progress}
        return task.key, task.function(task.policies, **task.arguments, **progress)

    def cancel(self) -> None:
        """Remove all tasks."""
        self._tasks.clear()

    def close(self) -> None:
        """Remove all tasks."""
        self._tasks.clear()
