"""Tasks of a run that can run in other processes, the protocol of their executors, and the executor of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.progress import Progress
from trainers.models.policy import PolicyProtocol


@dataclass(frozen=True)
class RemoteTask:
    """The call `function(policies, **arguments)`, with the same result wherever and however often it runs.

    All randomness comes from seeds among the arguments. A worker can start or finish a task and then die, so a function
    has no side effects except caches.
    """

    key: str
    """Unique name in the run; the same after a restart."""
    function: Callable[..., Any]
    """Module-level function, so that other processes can import it."""
    policies: Mapping[str, Sequence[PolicyProtocol]] = field(default_factory=dict)
    """Policies by role."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Values that pickle (settings, seeds, tensors), and `LazyValue` for those that are read when needed."""
    learns: bool = False
    """True if the task trains, and so needs the resources that an executor reserves for a learner."""
    device: str = "cpu"
    """Device of the computation."""
    max_shards: int = 1
    """Largest number of processes that can run the task together; a function that allows several takes `sharded`."""
    progress: Progress | None = None
    """Passed as the argument `progress` if the task runs in this process; it does not travel."""


class LazyValue:
    """A value that is read when it is needed: by the task if it runs in this process, else before the task travels."""

    def __init__(self, read: Callable[[], Any]) -> None:
        """Store the function `read()` that returns the value."""
        self.read = read

    def __call__(self) -> Any:
        """Return the value."""
        return self.read()


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
