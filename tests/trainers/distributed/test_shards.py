"""Each process holds its share of worlds, replay and checkpoints; errors are raised by all processes."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from ranks import Together
from shard_run import WORLDS

import gpu_envs
from gpu_envs.errors import CheckpointError, ConfigError
from trainers.base import shard as shard_module
from trainers.base.random_streams import normal, stream_of_rows
from trainers.base.shard import Shard, _kind_and_place
from trainers.buffers.replay_buffer import ReplayBuffer
from trainers.distributed import sharded_reducer
from trainers.distributed.checkpoint_state import axis_of_worlds, gather_state, scatter_state
from trainers.storage.checkpoint import Checkpoint
from trainers.storage.sharded_checkpoint import load_on_rank0


def test_shares_differ_by_at_most_one_world():
    shards = [Shard.split(rank, 3, 8) for rank in range(3)]
    assert [(shard.offset, shard.num_envs) for shard in shards] == [(0, 3), (3, 3), (6, 2)]
    assert shards[1].sizes() == [3, 3, 2]
    assert [shard.is_rank0 for shard in shards] == [True, False, False]
    for ranks in (0, 9):
        with pytest.raises(ConfigError, match=rf"num_workers: expected 1 to 8, .*, got {ranks}"):
            Shard.split(0, ranks, 8)


def test_single_process_has_all_worlds_and_no_communication(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    alone = Shard.from_env(5)
    assert (alone.rank, alone.ranks, alone.offset, alone.num_envs) == (0, 1, 0, 5)
    values = torch.ones(3)
    assert alone.sum(values) is values
    assert alone.all_gather(values) == [values]
    assert alone.all_reduce_max(7) == 7
    assert alone.broadcast_from_rank0(lambda: "said") == "said"
    assert load_on_rank0(alone, lambda: None) is None
    for part_of in (gather_state, scatter_state):
        assert part_of(alone, {"x": values}, None, {})["x"] is values


def saved(state):
    return Checkpoint(Path("000000001"), iteration=1, steps=8, config={}, score=None, state=state, policies=())


def test_other_ranks_get_only_shapes_of_a_checkpoint(monkeypatch):
    received = []
    monkeypatch.setattr(Shard, "broadcast_from_rank0", lambda self, make: received.append(make()) or received[0])
    whole = saved({"learner.a.replay.obs": torch.ones(30, 7, 2), "trainer.seconds": 1.5})
    assert load_on_rank0(Shard.split(0, 2, 7), lambda: whole) is whole
    assert (received[0].iteration, received[0].state["trainer.seconds"]) == (1, 1.5)
    outline = received[0].state["learner.a.replay.obs"]
    assert (outline.shape, outline.device.type) == ((30, 7, 2), "meta")


def test_state_with_wrong_number_of_worlds_is_refused():
    state = {"learner.a.replay.obs": torch.ones(30, 6, 2)}
    with pytest.raises(CheckpointError, match=r"learner.a.replay.obs: expected 7 worlds, got 6"):
        scatter_state(Shard.split(0, 2, 7), state, None, {"learner.a.replay.": 1})


def replay(shard, num_envs):
    """Return a replay of three steps that encode step and world."""
    fields = {"step": ((), torch.int64), "world": ((), torch.int64)}
    ring = ReplayBuffer(WORLDS * 5, num_envs, fields, torch.device("cpu"), shard=shard)
    worlds = torch.arange(num_envs) + (shard.offset if shard else 0)
    ring.add({"step": torch.arange(3)[:, None].expand(3, num_envs), "world": worlds.expand(3, num_envs)})
    return ring


@pytest.mark.parametrize(("ranks", "count"), [(2, 40), (3, 40), (3, 1)])  # two ranks have none of one place
def test_ranks_draw_the_same_places_and_keep_their_own(ranks, count):
    alone = replay(None, WORLDS)
    drawn = alone.draw(count, torch.Generator().manual_seed(0), window=2)
    wanted, found = alone.at(*drawn), {name: torch.full((count,), -1) for name in alone.buffers}
    noise = normal(torch.empty(count, 2), torch.Generator().manual_seed(1))
    for rank in range(ranks):
        shard = Shard.split(rank, ranks, WORLDS)
        ring = replay(shard, shard.num_envs)
        assert (ring.length, ring.filled, ring.position) == (alone.length, alone.filled, alone.position)
        time, env, own = ring.local_places(*ring.draw(count, torch.Generator().manual_seed(0), window=2))
        for name, values in ring.at(time, env).items():
            assert (found[name][own] == -1).all()
            found[name][own] = values
        stream = stream_of_rows(torch.Generator().manual_seed(1), count, own)
        assert torch.equal(normal(torch.empty(len(own), 2), stream), noise[own])
    for name, values in wanted.items():
        assert torch.equal(found[name], values)


def test_replay_too_large_for_one_rank_is_refused_on_all():
    fields = {"x": ((10,), torch.uint8)}
    for rank in range(3):  # of 8 worlds the last rank has two, the others three; the replay fits on the last
        shard = dataclasses.replace(Shard.split(rank, 3, 8), memory_budget=100)
        ReplayBuffer(24, shard.num_envs, fields, torch.device("cpu"), shard=shard)
        with pytest.raises(ConfigError, match="= 32: needs 120 bytes on cpu, 100 are free to each rank; at most 24 st"):
            ReplayBuffer(32, shard.num_envs, fields, torch.device("cpu"), shard=shard)


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

    assert together.each(tried, shards) == [("(1)", 0), ("(1)", 1), ("(2)", 2)]


def gpu(name, multiprocessors, uuid):
    return SimpleNamespace(name=name, multi_processor_count=multiprocessors, uuid=uuid)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([gpu("H200", 132, "b"), gpu("H200", 132, "a")], None),
        ([gpu("H200", 132, "b"), gpu("A100", 108, "c")], r"H200 \(132 .* on rank 0 and A100 \(108 .* on rank 2"),
        ([gpu("H200", 60, "b"), gpu("H200", 132, "c")], r"H200 \(132 .* on rank 0 and H200 \(60 .* on rank 1"),
    ],
)
def test_ranks_with_different_gpus_are_refused(monkeypatch, others, said):
    """The first and last rank share a GPU, and are of equal kind."""
    gpus, free = [gpu("H200", 132, "a"), *others], [100, 90, 80]
    shards = [Shard.split(rank, 3, 8, torch.device("cuda", rank)) for rank in range(3)]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpus[device.index])
    every = [(*_kind_and_place(shard.device), free[shard.rank]) for shard in shards]
    monkeypatch.setattr(shard_module, "free_memory", lambda device: free[device.index])
    monkeypatch.setattr(Shard, "all_gather_json", lambda self, said: every if said == every[self.rank] else None)
    for shard in shards:
        if said is None:
            assert shard._with_memory_budget().memory_budget == 40
        else:
            with pytest.raises(ConfigError, match=said):
                shard._with_memory_budget()


@pytest.mark.parametrize(
    ("env_id", "settings"),
    [
        ("SimpleSpread-v0", {}),
        ("Pendulum-v1", {"domain_randomization": {"g": (9.0, 11.0)}}),
        ("TicTacToe-v0", {}),
        ("LeducPoker-v0", {}),
        ("TagContinuous-v0", {"num_taggers": 2, "num_runners": 3}),
    ],
)
def test_axis_of_worlds_of_state_entries(env_id, settings):
    many, few = (gpu_envs.make(env_id, num_envs=n, device="cpu", seed=0, **settings).core for n in (7, 5))
    others = few.get_state()
    for name, value in many.get_state().items():
        if axis_of_worlds(f"core.{name}", many, {}) == 0:
            sizes = (len(value), len(others[name]))
            assert sizes in ((7, 5), (0, 0)), name
        else:
            assert value.shape == others[name].shape, name
