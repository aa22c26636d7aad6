"""Training with several processes equals training of all worlds in one process, except for rounding."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from ranks import Together
from shard_run import ACROSS, ITERATIONS, RUNS, SLOW, WORLDS, config, play, train

import gpu_envs
from gpu_envs.errors import CheckpointError, ConfigError, MissingExtraError
from trainers.algorithms import registry
from trainers.base import shard as shard_module
from trainers.base.random_streams import normal, stream_of_rows
from trainers.base.shard import Shard, _kind_and_place
from trainers.buffers.replay_buffer import ReplayBuffer
from trainers.cli.train import train_command
from trainers.cluster import ray_train
from trainers.cluster.ray_train import _workers_per_node
from trainers.distributed import sharded_reducer
from trainers.distributed.checkpoint_state import axis_of_worlds, gather_state, scatter_state
from trainers.storage import checkpoint
from trainers.storage.checkpoint import Checkpoint
from trainers.storage.learning_curves import read_rows
from trainers.storage.sharded_checkpoint import load_on_rank0

HERE = Path(__file__).parents[1]
OF_THREE = ("recurrent_tag",)
SLOW_OF_THREE = ("turns", "iql", "choices", "impala")
CASES = [
    *((2, run) for run in RUNS),
    *((3, run) for run in OF_THREE),
    *(pytest.param(2, run, marks=pytest.mark.slow) for run in SLOW),
    *(pytest.param(3, run, marks=pytest.mark.slow) for run in SLOW_OF_THREE),
]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return folders of the runs with 2, 3 and 1 processes."""
    return played(tmp_path_factory, tuple(RUNS), OF_THREE)


@pytest.fixture(scope="module")
def more(tmp_path_factory):
    """Return the folders of the slow runs."""
    return played(tmp_path_factory, tuple(SLOW), SLOW_OF_THREE)


@pytest.fixture
def outs(request, run):
    """Return the folders that contain a run."""
    return request.getfixturevalue("more" if run in SLOW else "many")


def played(tmp_path_factory, of_two, of_three):
    """Return folders by number of processes; the single process runs first, so that the others find its kernels."""
    outs, started = {1: tmp_path_factory.mktemp("ranks1")}, []
    play(outs[1], Shard.split(0, 1, WORLDS), of_two)
    where = {**os.environ, "PYTHONPATH": str(HERE.parents[2]), "OMP_NUM_THREADS": "1"}
    for ranks, runs in ((2, of_two), (3, of_three)):
        outs[ranks] = out = tmp_path_factory.mktemp(f"ranks{ranks}")
        for rank in range(ranks):
            command = [sys.executable, str(HERE / "shard_run.py"), str(out), str(rank), str(ranks), *runs]
            started.append(subprocess.Popen(command, env=where, stderr=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=900)[1] for process in started]
    for process, error in zip(started, said, strict=True):
        assert process.returncode == 0, error[-3000:]
    return outs


def held(out, run, ranks):
    return [torch.load(out / f"{run}-{rank}.pt", weights_only=True) for rank in range(ranks)]


def assert_near(one, other, what=""):
    assert (one.shape, one.dtype) == (other.shape, other.dtype), what
    if one.is_floating_point():  # unwritten entries are NaN in both
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5, equal_nan=True, msg=lambda said: f"{what}: {said}")
    else:
        assert torch.equal(one, other), what


@pytest.mark.parametrize(("ranks", "run"), CASES)
def test_ranks_learn_the_same_weights_as_one_process(outs, ranks, run):
    whole, parts = held(outs[1], run, 1)[0], held(outs[ranks], run, ranks)
    before = checkpoint.load(outs[1] / run / "checkpoints" / "000000002").state
    for policy, net in whole["nets"].items():
        moved = [(net[name] - before[f"learner.{policy}.net.{name}"]).abs().max() for name in net if "weight" in name]
        assert max(moved) > 1e-3  # so that tolerances are meaningful
        for name, tensor in net.items():
            assert_near(tensor, parts[0]["nets"][policy][name], name)
            assert all(torch.equal(part["nets"][policy][name], parts[0]["nets"][policy][name]) for part in parts)


@pytest.mark.parametrize(("ranks", "run"), CASES)
def test_rollouts_of_ranks_equal_those_of_one_process(outs, ranks, run):
    whole, parts = held(outs[1], run, 1)[0], held(outs[ranks], run, ranks)
    assert [part["offset"] for part in parts] == ([0, 4] if ranks == 2 else [0, 3, 5])
    exact = env_of(run) != "Pendulum-v1"  # a mean of actions is rounded depending on the batch
    for policy, rollout in whole["first"].items():
        for name in ("obs", "action", "reward"):
            together, tensor = torch.cat([part["first"][policy][name] for part in parts], 1), rollout[name]
            assert torch.equal(together, tensor) if exact else torch.allclose(together, tensor, atol=1e-5), name
    for part in parts:
        torch.testing.assert_close(part["recent"], whole["recent"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("ranks", "run"), CASES)
def test_checkpoints_and_metrics_equal_those_of_one_process(outs, ranks, run):
    one, other = checkpoint.load(outs[1] / run), checkpoint.load(outs[ranks] / run)
    assert (one.iteration, one.steps, one.policies) == (other.iteration, other.steps, other.policies)
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        if not isinstance(value, torch.Tensor):
            assert name == "trainer.seconds" or value == pytest.approx(other.state[name])
        elif exact_or_learned(run, name):
            assert_near(value, other.state[name], name)
        else:
            assert (value.shape, value.dtype) == (other.state[name].shape, other.state[name].dtype)
    rows = [read_rows(outs[ranks_] / run / "metrics.csv") for ranks_ in (1, ranks)]
    assert len(rows[0]) == len(rows[1]) == ITERATIONS
    for mine, others in zip(*rows, strict=True):
        assert mine.keys() == others.keys()
        for name in mine:
            if "second" not in name and not name.startswith("time/"):
                wanted = pytest.approx(float(mine[name]), rel=1e-3, abs=1e-4) if mine[name] else ""
                assert (float(others[name]) if others[name] else "") == wanted, name


def exact_or_learned(run, name):
    """Exclude numbers of worlds whose dynamics amplify rounding of actions."""
    return env_of(run) != "Pendulum-v1" or not name.startswith("core.")


def env_of(run):
    return {**RUNS, **SLOW}[run][0]


def test_runs_cover_uneven_rows_and_early_stopping(many):
    """Valid rows are uneven over steps and ranks, and an update is stopped by its divergence."""
    counts = [torch.stack(part["first"]["runner"]["counts"]) for part in held(many[3], "recurrent_tag", 3)]
    assert all(len(count.unique()) > 1 for count in counts)
    assert not torch.equal(counts[1], counts[2])  # with two worlds each
    steps = {float(row["agent/gradient_steps"]) for row in read_rows(many[2] / "spread" / "metrics.csv")}
    assert steps == {6.0, 9.0}


@pytest.mark.parametrize("ranks", [2, 3])
def test_sharded_run_resumes_bit_for_bit(many, ranks):
    whole, again = (checkpoint.load(many[ranks] / name).state for name in ("recurrent_tag", "again"))
    for name, value in whole.items():
        same = torch.equal(value, again[name]) if isinstance(value, torch.Tensor) else value == again[name]
        assert same or name == "trainer.seconds", name


def test_one_process_resumes_a_sharded_run(many, tmp_path):
    middle = checkpoint.load(many[3] / "recurrent_tag" / "checkpoints" / "000000002")
    trainer = train("recurrent_tag", tmp_path / "on", Shard.split(0, 1, WORLDS), middle)[1]
    for policy, net in held(many[1], "recurrent_tag", 1)[0]["nets"].items():
        for name, tensor in trainer.assignments[policy].learner.net.state_dict().items():
            assert_near(net[name], tensor, name)


@pytest.mark.parametrize("run", [pytest.param(run, marks=[pytest.mark.slow] * (run in SLOW)) for run in ACROSS])
def test_replay_is_resumed_with_any_number_of_processes(outs, run, tmp_path):
    """From one process to two and back to one, with hidden states and pending decisions in between."""
    across = checkpoint.load(outs[2] / f"{run}-across")
    assert (across.iteration, checkpoint.load(outs[2] / f"{run}-alone").iteration) == (4, 2)
    train(run, tmp_path / "on", Shard.split(0, 1, WORLDS), across)
    one, other = (checkpoint.load(out).state for out in (outs[1] / run, tmp_path / "on"))
    assert any(".replay." in name for name in one)
    for name, value in one.items():
        if isinstance(value, torch.Tensor):
            assert_near(value, other[name], name)


@pytest.mark.parametrize("ranks", [2, 3])
def test_signal_to_one_rank_ends_training_on_all(many, ranks):
    assert [part["iteration"] for part in held(many[ranks], "stopped", ranks)] == [3] * ranks
    assert checkpoint.load(many[ranks] / "stopped").iteration == 3


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


def test_runs_cover_all_algorithms():
    tried = {algorithm for _, _, algorithm, _ in [*RUNS.values(), *SLOW.values()]}
    assert tried == {*registry.ALGORITHMS} - {"ippo"}  # ppo under another name


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


def test_ranks_on_one_machine_share_its_memory_budget(many):
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    for ranks in (2, 3):
        rooms = [part["room"] for part in held(many[ranks], "recurrent_tag", ranks)]
        assert len(set(rooms)) == 1
        assert 0 < rooms[0] <= pages * size / ranks


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


def test_workers_with_different_gpus_are_not_restarted(monkeypatch, tmp_path):
    def refuse(*_):
        raise ConfigError("unlike")

    monkeypatch.setattr(Shard, "from_env", refuse)
    given = {"config": json.dumps(dataclasses.asdict(config("pole"))), "out": str(tmp_path), "resume": None}
    assert ray_train._work(given) == ("ConfigError", "unlike")


def test_missing_ray_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingExtraError, match=r"gpu-envs train --num-workers needs .*gpu-envs\[ray\]"):
        train_command(["CartPole-v1", "--device", "cpu", "--num-workers", "2"])
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("each", "room"),
    [({"CPU": 1.0}, [8, 2]), ({"CPU": 1.0, "GPU": 1.0}, [4, 0]), ({"CPU": 1.0, "GPU": 0.5}, [8, 0])],
)
def test_workers_are_placed_where_resources_are_free(each, room):
    assert _workers_per_node([{"CPU": 8.0, "GPU": 4.0, "memory": 1e9}, {"CPU": 2.0}], each) == room
