"""Replay learners: a rank without rows of a minibatch learns the same as a single process.

Weights of a joint critic that cancel out may differ, see `trainers.base.shard`; its values do not.
"""

import math
from typing import Any

import pytest
import torch
from ranks import Together

from trainers.algorithms import algorithm_specs
from trainers.base import shard as shard_module
from trainers.base.shard import Shard
from trainers.buffers.replay_buffer import ReplayBuffer
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.distributed import sharded_reducer
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup

WORLDS, RANKS, UPDATES = 5, 2, 3
SMALL: dict[str, Any] = {
    "rollout_length": 4, "updates": 3, "replay_size": 200, "batch_size": 6, "learning_starts": 20, "hidden_sizes": (8,),
    "learning_rate": 0.01, "normalize_obs": True, "max_grad_norm": 1.0,
}  # fmt: skip
SPREAD, TAG, BOX = {"max_cycles": 6}, {"max_cycles": 6, "num_good": 2}, {"continuous_actions": True}
GRU = {"network": "gru", "window": 3, "burn_in": 1}
RUNS = {
    "dqn": ("SimpleSpread-v0", SPREAD, "dqn", {"prioritized": True, "n_step": 2}),
    "iql": ("SimpleSpread-v0", SPREAD, "iql", {}),
    "dqn of windows": ("SimpleSpread-v0", SPREAD, "dqn", GRU | {"n_step": 2}),
    "iql of turns": ("LeducPoker-v0", {}, "iql", GRU),
    "nfsp": ("SimpleSpread-v0", SPREAD, "nfsp", {"anticipatory_param": 0.5, "reservoir_size": 100}),
    "vdn": ("SimpleSpread-v0", SPREAD, "vdn", GRU),
    "qmix": ("SimpleSpread-v0", SPREAD, "qmix", {}),
    "qplex": ("SimpleSpread-v0", SPREAD, "qplex", {}),
    "ddpg": ("Pendulum-v1", {}, "ddpg", {}),
    "td3": ("Pendulum-v1", {}, "td3", {}),
    "sac": ("Pendulum-v1", {}, "sac", {}),
    "sac of choices": ("SimpleSpread-v0", SPREAD, "sac", {}),
    "sac of windows": ("Pendulum-v1", {}, "sac", GRU),
    "sac of windows of choices": ("SimpleSpread-v0", SPREAD, "sac", GRU),
    "td3 of windows": ("Pendulum-v1", {}, "td3", GRU),
    "maddpg": ("SimpleTag-v0", TAG, "maddpg", {}),
    "matd3": ("SimpleTag-v0", TAG | BOX, "matd3", {}),
    "masac": ("SimpleTag-v0", TAG | BOX, "masac", {}),
    "masac of choices": ("SimpleTag-v0", TAG, "masac", {}),
}


def collector(run, shard):
    env_id, env, algorithm, settings = RUNS[run]
    learner = algorithm_specs.find(algorithm).settings(**{**SMALL, **settings})
    config = TrainConfig(
        env_id, env, algorithm=algorithm, learner=learner, num_envs=WORLDS, total_steps=10_000, seed=2, eval_episodes=0
    )
    core = make_train_core(config, shard.num_envs, 2, **shard.core_settings)
    return Collector(config, core, LearnerGroup(config, core, shard=shard))


def of_one_rank(draw, shards):
    """Return a stub for drawing places: each draw is in the worlds of one rank, in turn."""
    drawn: dict[int, int] = {}

    def changed(self, *args, **settings):
        time, env, *weight = draw(self, *args, **settings)
        number = drawn[id(self)] = drawn.get(id(self), -1) + 1
        shard = shards[number % RANKS]
        return time, shard.offset + env % shard.num_envs, *weight

    return changed


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("run", RUNS)
def test_rank_without_rows_of_a_minibatch_learns_as_one_process(run, monkeypatch):
    shards, together, sizes = [Shard.split(rank, RANKS, WORLDS) for rank in range(RANKS)], Together(RANKS), set()
    original = ReplayBuffer.local_places

    def watched(self, time, env):
        indices = original(self, time, env)
        sizes.add((len(time), len(indices[0])))
        return indices

    for name in ("draw", "draw_prioritized"):
        monkeypatch.setattr(ReplayBuffer, name, of_one_rank(getattr(ReplayBuffer, name), shards))
    monkeypatch.setattr(ReplayBuffer, "local_places", watched)
    for module in (shard_module, sharded_reducer):
        monkeypatch.setattr(module, "all_reduce_sum", together.total)
    alone, ranks = collector(run, Shard.split(0, 1, WORLDS)), [collector(run, shard) for shard in shards]
    for update in range(1, UPDATES + 1):
        for worker in (alone, *ranks):
            worker.collect()
        expected = alone.learners.update(update, str)
        for row in together.map(lambda worker, update=update: worker.learners.update(update, str), ranks):
            assert all(math.isfinite(value) for value in row.values())
            assert row == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert sizes == {(6, 6), (6, 0)}
    assert any("loss" in name for name in expected)
    assert any("norm" in name and value > 1e-4 for name, value in expected.items())
    for name, seat in alone.learners.assignments.items():
        nets = [worker.learners.assignments[name].learner.net.state_dict() for worker in ranks]
        for key, tensor in seat.learner.net.state_dict().items():
            assert torch.equal(nets[0][key], nets[1][key]), key
            if not (
                alone.learners.assignments[name].critic_state.kind == "joint"
                and "critics" in key
                and key.endswith("body.0.weight")
            ):
                torch.testing.assert_close(nets[0][key], tensor, rtol=1e-4, atol=1e-5, msg=key)


def test_runs_cover_all_replay_learners():
    names = {
        name for name in algorithm_specs.ALGORITHMS if hasattr(algorithm_specs.find(name).settings(), "replay_size")
    }
    assert names == {algorithm for _, _, algorithm, _ in RUNS.values()}
