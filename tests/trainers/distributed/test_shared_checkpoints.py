"""Processes read and write a checkpoint together, each its share of worlds."""

from pathlib import Path

import pytest
import torch

import gpu_envs
from gpu_envs.errors import CheckpointError
from trainers.base.shard import Shard
from trainers.distributed.checkpoint_state import axis_of_worlds, gather_state, scatter_state
from trainers.storage.checkpoint import Checkpoint, load_on_rank0


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
    loaded = saved({"learner.a.replay.obs": torch.ones(30, 7, 2), "trainer.seconds": 1.5})
    assert load_on_rank0(Shard.split(0, 2, 7), lambda: loaded) is loaded
    assert (received[0].iteration, received[0].state["trainer.seconds"]) == (1, 1.5)
    outline = received[0].state["learner.a.replay.obs"]
    assert (outline.shape, outline.device.type) == ((30, 7, 2), "meta")


def test_state_with_wrong_number_of_worlds_is_refused():
    state = {"learner.a.replay.obs": torch.ones(30, 6, 2)}
    with pytest.raises(CheckpointError, match=r"learner.a.replay.obs: expected 7 worlds, got 6"):
        scatter_state(Shard.split(0, 2, 7), state, None, {"learner.a.replay.": 1})


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
    state = few.get_state()
    for name, value in many.get_state().items():
        if axis_of_worlds(f"core.{name}", many, {}) == 0:
            sizes = (len(value), len(state[name]))
            assert sizes in ((7, 5), (0, 0)), name
        else:
            assert value.shape == state[name].shape, name
