"""Training by several processes: gradient reduction, and checkpoints that hold the state of all ranks."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.distributed.checkpoint_state import gather_state, scatter_state
    from trainers.distributed.sharded_reducer import AllReduceReducer, ShardedReducer, reducer_for

__all__ = ["AllReduceReducer", "ShardedReducer", "gather_state", "reducer_for", "scatter_state"]

__getattr__, __dir__ = lazy_exports(__name__)
