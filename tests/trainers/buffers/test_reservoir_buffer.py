"""Reservoirs: algorithm R in plain Python, uniform samples, draws in proportion, ranks, saving and refusals."""

import pytest
import torch
from ranks import Together
from scipy import stats

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.base import shard as shard_module
from trainers.base.random_streams import stream_of_shard
from trainers.base.shard import Shard
from trainers.buffers import replay_buffer
from trainers.buffers.reservoir_buffer import ReservoirBuffer

CPU, FIELDS = torch.device("cpu"), {"number": ((), torch.int64), "pair": ((2,), torch.float32)}


def decisions(length, envs, agents, first=0):
    """Return decisions that encode step, world and agent: 100 * step + 10 * world + agent."""
    number = 100 * torch.arange(first, first + length)[:, None, None] + 10 * torch.arange(envs)[:, None]
    number = number + torch.arange(agents)
    return {"number": number, "pair": torch.stack([number, -number], -1).float()}


def test_reservoirs_equal_algorithm_r_in_plain_python():
    length, envs, agents, slots = 60, 3, 2, 4
    chosen = torch.rand((length, envs, agents), generator=torch.Generator().manual_seed(1)) < 0.7
    chosen[:, 2, 0] = False
    buffer = ReservoirBuffer(slots * envs, (envs, agents), FIELDS, CPU)
    stream, generator = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    rows = decisions(length, envs, agents)
    for first in range(0, length, 20):
        part = slice(first, first + 20)
        buffer.add({name: tensor[part] for name, tensor in rows.items()}, chosen[part], stream)
    expected = {(env, agent): [] for env in range(envs) for agent in range(agents)}
    counts = dict.fromkeys(expected, 0)
    for t in range(length):
        draws = torch.empty((envs, agents), dtype=torch.float64).uniform_(generator=generator)
        for (env, agent), kept in expected.items():
            if not chosen[t, env, agent]:
                continue
            slot = int(draws[env, agent] * (counts[env, agent] + 1))
            counts[env, agent] += 1
            if len(kept) < slots:
                kept.append(100 * t + 10 * env + agent)
            elif slot < slots:
                kept[slot] = 100 * t + 10 * env + agent
    for (env, agent), kept in expected.items():
        assert buffer.counts[env, agent] == counts[env, agent]
        assert buffer.buffers["number"][: len(kept), env, agent].tolist() == kept
        assert buffer.buffers["pair"][: len(kept), env, agent, 1].tolist() == [-number for number in kept]
        assert not buffer.buffers["number"][len(kept) :, env, agent].any()
    assert min(len(kept) for place, kept in expected.items() if place != (2, 0)) == slots


def test_every_decision_is_kept_equally_often():
    """Of 12 decisions 3 are kept, so that the counts of the decisions have the covariance of draws without return."""
    envs, length, slots = 4000, 12, 3
    buffer = ReservoirBuffer(slots * envs, (envs, 1), {"number": ((), torch.int64)}, CPU)
    number = torch.arange(length)[:, None, None].expand(length, envs, 1)
    buffer.add({"number": number}, torch.ones_like(number, dtype=torch.bool), torch.Generator().manual_seed(0))
    counts = buffer.buffers["number"].flatten().bincount(minlength=length).double()
    share = slots / length
    statistic = float((counts - share * envs).square().sum() / (envs * share * (1 - share)) * (length - 1) / length)
    assert statistic < stats.chi2.ppf(0.999, length - 1)


def test_draws_are_uniform_over_all_decisions_so_far():
    """An agent with 30 decisions, of which 10 are kept, is drawn ten times as often as one with 3."""
    buffer = ReservoirBuffer(20, (2, 2), FIELDS, CPU)
    totals = torch.tensor([[3, 0], [30, 10]])
    rows = decisions(30, 2, 2)
    chosen = torch.arange(30)[:, None, None] < totals
    buffer.add(rows, chosen, torch.Generator().manual_seed(0))
    assert torch.equal(buffer.counts, totals)
    slot, env, agent = buffer.draw(43_000, torch.Generator().manual_seed(1))
    drawn = torch.zeros((10, 2, 2)).index_put_((slot, env, agent), torch.ones(()), accumulate=True)
    filled = totals.clamp(max=10)
    expected = (1000 * totals / filled.clamp(min=1) * (torch.arange(10)[:, None, None] < filled)).flatten()
    assert not drawn.flatten()[expected == 0].any()
    used = expected > 0
    assert stats.chisquare(drawn.flatten()[used].numpy(), expected[used].numpy()).pvalue > 1e-3


def test_draw_from_an_empty_reservoir_is_an_unused_place():
    slot, env, agent = ReservoirBuffer(20, (2, 2), FIELDS, CPU).draw(5, torch.Generator().manual_seed(0))
    assert (slot.tolist(), env.tolist(), agent.tolist()) == ([0] * 5, [1] * 5, [1] * 5)


def test_ranks_hold_and_draw_what_one_process_does(monkeypatch):
    envs, agents, slots = 5, 2, 3
    chosen = torch.rand((20, envs, agents), generator=torch.Generator().manual_seed(1)) < 0.5
    rows, together = decisions(20, envs, agents), Together(2)
    monkeypatch.setattr(shard_module, "all_reduce_sum", together.total)

    def filled(shard):
        worlds = slice(shard.offset, shard.offset + shard.num_envs)
        buffer = ReservoirBuffer(slots * envs, (shard.num_envs, agents), FIELDS, CPU, shard)
        stream = stream_of_shard(torch.Generator().manual_seed(0), shard)
        buffer.add({name: tensor[:, worlds] for name, tensor in rows.items()}, chosen[:, worlds], stream)
        return buffer

    alone = filled(Shard.split(0, 1, envs))
    ranks = together.map(filled, [Shard.split(rank, 2, envs) for rank in range(2)])
    for name, tensor in alone.buffers.items():
        assert torch.equal(torch.cat([buffer.buffers[name] for buffer in ranks], 1), tensor)
    drawn = alone.draw(50, torch.Generator().manual_seed(2))
    numbers = torch.full((50,), -1)
    for buffer in ranks:
        assert torch.equal(buffer.counts, alone.counts)
        slot, env, agent = buffer.draw(50, torch.Generator().manual_seed(2))
        slot, env, indices = buffer.local_places(slot, env)
        numbers[indices] = buffer.buffers["number"][slot, env, agent[indices]]
    assert torch.equal(numbers, alone.buffers["number"][drawn])


def test_restored_reservoir_continues():
    one, other = (ReservoirBuffer(8, (2, 2), FIELDS, CPU) for _ in range(2))
    rows, chosen, generator = decisions(3, 2, 2), torch.ones((3, 2, 2), dtype=torch.bool), torch.Generator()
    one.add(rows, chosen, generator)
    state = {
        name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in one.state_dict().items()
    }
    assert state["replay.reservoir.number"].shape == (3, 2, 2)
    other.load_state_dict(state)
    for buffer in (one, other):
        for first in range(3, 12, 3):
            buffer.add(decisions(3, 2, 2, first), chosen, torch.Generator().manual_seed(first))
    assert torch.equal(one.counts, other.counts)
    for name, tensor in one.buffers.items():
        assert torch.equal(tensor, other.buffers[name])
    with pytest.raises(CheckpointError, match=r"replay.reservoir.pair: expected shape \(3, 2, 2, 2\), got nothing"):
        other.load_state_dict({name: value for name, value in state.items() if not name.endswith("pair")})
    with pytest.raises(CheckpointError, match=r"reservoir_counts: expected shape \(2, 2\), got nothing"):
        other.load_state_dict({})
    with pytest.raises(CheckpointError, match="reservoir_counts: expected numbers from 0, got -3"):
        other.load_state_dict({**state, "reservoir_counts": -state["reservoir_counts"]})


def test_reservoir_too_large_for_memory_is_refused(monkeypatch):
    monkeypatch.setattr(replay_buffer, "free_memory", lambda device: 100)
    with pytest.raises(ConfigError, match=r"^learner.reservoir_size = 5: needs 120 bytes on cpu"):
        ReservoirBuffer(5, (2, 1), {"obs": ((4,), torch.float32), "mask": ((4,), torch.bool)}, CPU)
