"""Where the work of a league is done: in this process, in others of this machine, or on a Ray cluster.

    PSRO(store, config, executor=LocalExecutor())
    PSRO(store, config, executor=RayExecutor(address="auto", gpus_per_learner=0.5))

The run comes out the same. One process, the coordinator, owns populations, payoffs and schedule, and writes them down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from league.executors.calls import Call, Later, Parcel, pack, packed, unpack, unpacked
from league.executors.coordinator import Coordinator, gather
from league.executors.executor import Executor, LocalExecutor
from league.executors.process import ProcessExecutor

if TYPE_CHECKING:
    from league.executors.ray import RayExecutor

__all__ = [
    "Call",
    "Coordinator",
    "Executor",
    "Later",
    "LocalExecutor",
    "Parcel",
    "ProcessExecutor",
    "RayExecutor",
    "gather",
    "pack",
    "packed",
    "unpack",
    "unpacked",
]


def __getattr__(name: str) -> Any:
    if name == "RayExecutor":
        from league.executors.ray import RayExecutor

        return RayExecutor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
