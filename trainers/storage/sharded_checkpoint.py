"""Load a checkpoint in a run of several processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from trainers.base.shard import Shard
from trainers.distributed.checkpoint_state import without_values
from trainers.storage.checkpoint import Checkpoint

__all__ = ["load_on_rank0"]


def load_on_rank0(shard: Shard, load: Callable[[], Checkpoint | None]) -> Checkpoint | None:
    """Load a checkpoint on rank 0 and return it there; other ranks get its metadata.

    On other ranks the tensors of its state have shapes only (device "meta"), which is what `scatter_state` needs.

    Args:
        shard: Shard of this rank.
        load: Called on rank 0, such as `lambda: checkpoint.load(path)`; may return None if there is no checkpoint.

    Raises:
        GpuEnvsError: The error that `load` raised, on all ranks.
    """
    if shard.ranks == 1:
        return load()
    loaded: list[Checkpoint | None] = []

    def load_metadata() -> Checkpoint | None:
        loaded.append(load())
        return loaded[0] and dataclasses.replace(loaded[0], state=without_values(loaded[0].state))

    metadata = shard.broadcast_from_rank0(load_metadata)
    return loaded[0] if loaded else metadata
