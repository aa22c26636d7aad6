"""Replay buffer: overwriting, sampling, saving and refusals."""

import pytest
import torch

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.buffers import replay_buffer
from trainers.buffers.replay_buffer import ReplayBuffer

FIELDS = {"obs": ((2, 3), torch.float32), "valid": ((2,), torch.bool)}


def steps(first: int, count: int, num_envs: int = 2) -> dict[str, torch.Tensor]:
    """Return steps whose observations encode step and world: 10 * step + world."""
    when = 10.0 * torch.arange(first, first + count)
    obs = (when.unsqueeze(1) + torch.arange(num_envs))[..., None, None].expand(count, num_envs, 2, 3)
    return {"obs": obs, "valid": torch.ones((count, num_envs, 2), dtype=torch.bool)}


def stored_values(ring: ReplayBuffer) -> set[float]:
    generator = torch.Generator().manual_seed(0)
    return set(ring.at(*ring.draw(500, generator))["obs"][:, 0, 0].tolist())


def test_oldest_steps_are_overwritten():
    ring = ReplayBuffer(9, 2, FIELDS, torch.device("cpu"))  # 5 steps of 2 worlds
    assert ring.length == 5
    ring.add(steps(0, 3))
    assert stored_values(ring) == {0, 1, 10, 11, 20, 21}
    ring.add(steps(3, 3))
    assert stored_values(ring) == {10 * step + world for step in range(1, 6) for world in range(2)}


def test_windows_never_cross_the_end_of_the_ring():
    ring = ReplayBuffer(10, 2, FIELDS, torch.device("cpu"))
    for first in range(0, 21, 3):
        ring.add(steps(first, 3))
        if ring.filled < 4:
            continue
        time, env = ring.draw(200, torch.Generator().manual_seed(first), window=4)
        obs = ring.windows(time, env, 4)["obs"][..., 0, 0]
        assert torch.equal(obs - obs[0], torch.tensor([0.0, 10.0, 20.0, 30.0]).unsqueeze(1).expand(4, 200))
        assert set((obs[0] // 10).tolist()) == set(range(first + 3 - ring.filled, first))


def test_replay_too_large_for_memory_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(replay_buffer, "free_memory", lambda device: 1000)
    size = 2 * 3 * 4 + 2
    ReplayBuffer(1000 // size // 2 * 2, 2, FIELDS, torch.device("cpu"))
    with pytest.raises(ConfigError, match=r"replay_size = 100: needs 2,600 bytes on cpu, 1,000 are free; at most 38 "):
        ReplayBuffer(100, 2, FIELDS, torch.device("cpu"))
    assert replay_buffer.free_memory(torch.device("cpu")) == 1000


def test_rollout_longer_than_the_ring_is_refused():
    with pytest.raises(ConfigError, match="rollout of 6 steps does not fit; expected at least 12 for 2 worlds"):
        ReplayBuffer(10, 2, FIELDS, torch.device("cpu")).add(steps(0, 6))


def test_restored_replay_continues_at_its_position():
    first, second = (ReplayBuffer(10, 2, FIELDS, torch.device("cpu")) for _ in range(2))
    first.add(steps(0, 3))
    second.load_state_dict(first.state_dict())
    for ring in (first, second):
        ring.add(steps(3, 4))
    assert (first.position, first.filled) == (second.position, second.filled)
    assert all(torch.equal(first.buffers[name], second.buffers[name]) for name in FIELDS)
    smaller = ReplayBuffer(4, 2, FIELDS, torch.device("cpu"))
    with pytest.raises(CheckpointError, match=r"replay_position: expected an int in \[0, 1\], got 2"):
        smaller.load_state_dict(first.state_dict())
    wider = ReplayBuffer(10, 2, {**FIELDS, "obs": ((2, 4), torch.float32)}, torch.device("cpu"))
    with pytest.raises(CheckpointError, match=r"replay.obs: expected shape \(5, 2, 2, 4\)"):
        wider.load_state_dict(first.state_dict())


@pytest.mark.parametrize("name", ["replay_position", "replay_filled"])
@pytest.mark.parametrize("value", [-1, 6, 2**62, True, 1.0, None])
def test_invalid_replay_counters_are_refused(name, value):
    ring = ReplayBuffer(10, 2, FIELDS, torch.device("cpu"))
    ring.add(steps(0, 3))
    with pytest.raises(CheckpointError, match=rf"{name}: expected an int in \[0, "):
        ring.load_state_dict({**ring.state_dict(), name: value})
