"""The protocol of executors."""

from __future__ import annotations

from typing import Any, Protocol

from league.executors.remote_task import RemoteTask

__all__ = ["Executor"]


class Executor(Protocol):
    """Run tasks and return their results in the order of completion."""

    remote: bool
    """True if tasks run in other processes, to which policies and arguments are sent."""

    def device(self, name: str | None) -> str:
        """Return the device on which tasks compute: `name`, or the workers' first GPU if there is one, else "cpu".

        Raises:
            DeviceError: The requested device does not exist.
        """
        ...

    @property
    def pending(self) -> int:
        """Number of submitted tasks whose results were not returned."""
        ...

    def submit(self, task: RemoteTask) -> None:
        """Queue a task and return at once. It runs when a worker is free."""
        ...

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Wait for the next task to finish; return its key and result.

        Args:
            within: Timeout after which None is returned [s]; None: no timeout.

        Raises:
            GpuEnvsError: The task failed, or no worker could finish it.
        """
        ...

    def cancel(self) -> None:
        """Remove all tasks; running ones are stopped, or their results are discarded."""
        ...

    def close(self) -> None:
        """Release the workers."""
        ...
