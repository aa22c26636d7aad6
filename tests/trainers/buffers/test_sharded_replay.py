"""A replay that several processes hold together draws what one process draws."""

import dataclasses

import pytest
import torch
from shard_run import WORLDS

from gpu_envs.errors import ConfigError
from trainers.base.random_streams import normal, stream_of_rows
from trainers.base.shard import Shard
from trainers.buffers.replay_buffer import ReplayBuffer


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
    expected, actual = alone.at(*drawn), {name: torch.full((count,), -1) for name in alone.buffers}
    noise = normal(torch.empty(count, 2), torch.Generator().manual_seed(1))
    for rank in range(ranks):
        shard = Shard.split(rank, ranks, WORLDS)
        ring = replay(shard, shard.num_envs)
        assert (ring.length, ring.filled, ring.position) == (alone.length, alone.filled, alone.position)
        time, env, rows = ring.local_places(*ring.draw(count, torch.Generator().manual_seed(0), window=2))
        for name, values in ring.at(time, env).items():
            assert (actual[name][rows] == -1).all()
            actual[name][rows] = values
        stream = stream_of_rows(torch.Generator().manual_seed(1), count, rows)
        assert torch.equal(normal(torch.empty(len(rows), 2), stream), noise[rows])
    for name, values in expected.items():
        assert torch.equal(actual[name], values)


def test_replay_too_large_for_one_rank_is_refused_on_all():
    fields = {"x": ((10,), torch.uint8)}
    for rank in range(3):  # of 8 worlds the last rank has two, the others three; the replay fits on the last
        shard = dataclasses.replace(Shard.split(rank, 3, 8), memory_budget=100)
        ReplayBuffer(24, shard.num_envs, fields, torch.device("cpu"), shard=shard)
        with pytest.raises(ConfigError, match="= 32: needs 120 bytes on cpu, 100 are free to each rank; at most 24 st"):
            ReplayBuffer(32, shard.num_envs, fields, torch.device("cpu"), shard=shard)
