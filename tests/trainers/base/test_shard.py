"""Worlds are divided between processes, and errors are raised by all of them."""

from types import SimpleNamespace

import pytest
import torch
from ranks import Together

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.base import shard as shard_module
from trainers.base.shard import Shard, _kind_and_place
from trainers.distributed import sharded_reducer


def test_shares_differ_by_at_most_one_world():
    shards = [Shard.split(rank, 3, 8) for rank in range(3)]
    assert [(shard.offset, shard.num_envs) for shard in shards] == [(0, 3), (3, 3), (6, 2)]
    assert shards[1].sizes() == [3, 3, 2]
    assert [shard.is_rank0 for shard in shards] == [True, False, False]
    for ranks in (0, 9):
        with pytest.raises(ConfigError, match=rf"num_workers: expected 1 to 8, .*, got {ranks}"):
            Shard.split(0, ranks, 8)


def test_error_on_one_rank_is_raised_on_all(monkeypatch):
    shards, together = [Shard.split(rank, 3, 8) for rank in range(3)], Together(3)
    for module in (shard_module, sharded_reducer):
        monkeypatch.setattr(module, "all_reduce_sum", together.total)

    def refused(shard):
        if shard.rank > 0:
            raise CheckpointError(f"state: expected a tensor ({shard.rank})")

    def tried(shard):
        with pytest.raises(CheckpointError, match="expected a tensor") as caught:
            shard.run_on_all(lambda: refused(shard))
        return str(caught.value)[-3:], shard.run_on_all(lambda: shard.rank)

    assert together.map(tried, shards) == [("(1)", 0), ("(1)", 1), ("(2)", 2)]


def gpu(name, multiprocessors, uuid):
    return SimpleNamespace(name=name, multi_processor_count=multiprocessors, uuid=uuid)


@pytest.mark.parametrize(
    ("peers", "message"),
    [
        ([gpu("H200", 132, "b"), gpu("H200", 132, "a")], None),
        ([gpu("H200", 132, "b"), gpu("A100", 108, "c")], r"H200 \(132 .* on rank 0 and A100 \(108 .* on rank 2"),
        ([gpu("H200", 60, "b"), gpu("H200", 132, "c")], r"H200 \(132 .* on rank 0 and H200 \(60 .* on rank 1"),
    ],
)
def test_ranks_with_different_gpus_are_refused(monkeypatch, peers, message):
    """The first and last rank share a GPU, and are of equal kind."""
    gpus, free = [gpu("H200", 132, "a"), *peers], [100, 90, 80]
    shards = [Shard.split(rank, 3, 8, torch.device("cuda", rank)) for rank in range(3)]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpus[device.index])
    entries = [(*_kind_and_place(shard.device), free[shard.rank]) for shard in shards]
    monkeypatch.setattr(shard_module, "free_memory", lambda device: free[device.index])
    monkeypatch.setattr(
        Shard, "all_gather_json", lambda self, message: entries if message == entries[self.rank] else None
    )
    for shard in shards:
        if message is None:
            assert shard._with_memory_budget().memory_budget == 40
        else:
            with pytest.raises(ConfigError, match=message):
                shard._with_memory_budget()
