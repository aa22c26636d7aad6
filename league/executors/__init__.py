"""Where the work of a league is done: in this process, in others of this machine, or on a Ray cluster.

    PSRO(store, config, executor=LocalExecutor())
    PSRO(store, config, executor=RayExecutor(address="auto", gpus_per_learner=0.5))

The run comes out the same. One process, the coordinator, owns populations, payoffs and schedule, and writes them down.
"""

from league.executors.calls import Call, Later, Parcel, pack, packed, unpack, unpacked
from league.executors.coordinator import Coordinator
from league.executors.executor import Executor, LocalExecutor

__all__ = [
    "Call",
    "Coordinator",
    "Executor",
    "Later",
    "LocalExecutor",
    "Parcel",
    "pack",
    "packed",
    "unpack",
    "unpacked",
]
