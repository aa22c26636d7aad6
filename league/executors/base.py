"""Who does the calls of a run: the protocol, and the one that does them here."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from gpu_envs.factory import resolve_device
from league.executors.calls import Call


class Executor(Protocol):
    """Takes calls, and gives their results back as they come."""

    remote: bool
    """Whether calls run in other processes, which this one sends what they need."""

    def device(self, asked: str | None) -> str:
        """Where calls compute: what is asked for, or the first GPU of whoever does them, if there is one, else "cpu".

        Raises:
            DeviceError: It is not there.
        """
        ...

    @property
    def pending(self) -> int:
        """Calls that were submitted and whose results were not given back yet."""
        ...

    def submit(self, call: Call) -> None:
        """Takes a call; returns at once. It runs when a worker is free."""
        ...

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Waits for a call to end, whichever is first; its key and its result.

        Args:
            within: Seconds, after which it is None; None: as long as it takes.

        Raises:
            GpuEnvsError: The call has failed, or no worker could end it.
        """
        ...

    def cancel(self) -> None:
        """Forgets all calls; what still runs is ended or its result thrown away."""
        ...

    def close(self) -> None:
        """Lets go of the workers."""
        ...


class LocalExecutor:
    """Does the calls in this process, one after the other, when their results are asked for."""

    remote = False

    def __init__(self) -> None:
        """Nothing to do yet."""
        self._calls: deque[Call] = deque()

    def device(self, asked: str | None) -> str:
        """One of this machine."""
        return str(resolve_device(asked))

    @property
    def pending(self) -> int:
        """Calls that are still to be done."""
        return len(self._calls)

    def submit(self, call: Call) -> None:
        """Puts it at the end."""
        self._calls.append(call)

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Does the first; by itself, while somebody has other things to do, none ends."""
        if within is not None:
            return None
        call = self._calls.popleft()
        return call.key, call.run()

    def cancel(self) -> None:
        """Forgets all."""
        self._calls.clear()

    def close(self) -> None:
        """There is nothing to let go of."""
        self._calls.clear()
