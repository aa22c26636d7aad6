"""Executors of a run's tasks: in this process, in other processes of this machine, or on a Ray cluster.

    PSRO(store, config, executor=LocalExecutor())
    PSRO(store, config, executor=RayExecutor(address="auto", gpus_per_learner=0.5))

The results do not depend on the executor. One process, the coordinator, owns populations, payoffs and schedule, and
writes the store.
"""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from league.executors.base import Executor
    from league.executors.coordinator import Coordinator, gather
    from league.executors.local import LocalExecutor
    from league.executors.process import ProcessExecutor
    from league.executors.ray import RayExecutor
    from league.executors.remote_task import LazyValue, RemoteTask
    from league.executors.transport import PayloadRef, PolicyPayload, pack, packed, unpack, unpacked

_MODULES = {
    "Coordinator": "league.executors.coordinator",
    "Executor": "league.executors.base",
    "LazyValue": "league.executors.remote_task",
    "LocalExecutor": "league.executors.local",
    "PayloadRef": "league.executors.transport",
    "PolicyPayload": "league.executors.transport",
    "ProcessExecutor": "league.executors.process",
    "RayExecutor": "league.executors.ray",
    "RemoteTask": "league.executors.remote_task",
    "gather": "league.executors.coordinator",
    "pack": "league.executors.transport",
    "packed": "league.executors.transport",
    "unpack": "league.executors.transport",
    "unpacked": "league.executors.transport",
}

__all__ = [
    "Coordinator",
    "Executor",
    "LazyValue",
    "LocalExecutor",
    "PayloadRef",
    "PolicyPayload",
    "ProcessExecutor",
    "RayExecutor",
    "RemoteTask",
    "gather",
    "pack",
    "packed",
    "unpack",
    "unpacked",
]

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
