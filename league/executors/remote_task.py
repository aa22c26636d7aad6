"""Tasks of a run that can run in other processes, and the values that travel with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_envs.utils.progress import Progress
from trainers.models.policy import PolicyProtocol

__all__ = ["LazyValue", "RemoteTask"]


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
