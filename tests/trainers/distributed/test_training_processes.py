"""Training with several processes equals training of all worlds in one process, except for rounding."""

import os
import subprocess
import sys
from pathlib import Path

import climbers
import pytest
import torch
from ranks import Together
from shard_run import ACROSS, ITERATIONS, MORE_RUNS, RUNS, WORLDS, config, play, train
from toy import announce

from trainers.algorithms import registry
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.base import shard as shard_module
from trainers.base.shard import Shard
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.distributed import sharded_reducer
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows

HERE = Path(__file__).parents[1]
OF_THREE = ("recurrent_tag",)
MORE_OF_THREE = ("turns", "iql", "choices", "impala")
CASES = [
    *((2, run) for run in (*RUNS, *MORE_RUNS)),
    *((3, run) for run in (*OF_THREE, *MORE_OF_THREE)),
]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return folders of the runs with 2, 3 and 1 processes."""
    return played(tmp_path_factory, tuple(RUNS), OF_THREE)


@pytest.fixture(scope="module")
def more(tmp_path_factory):
    """Return folders of the other runs with 2, 3 and 1 processes."""
    return played(tmp_path_factory, tuple(MORE_RUNS), MORE_OF_THREE)


@pytest.fixture
def outs(request, run):
    """Return the folders that contain a run."""
    return request.getfixturevalue("more" if run in MORE_RUNS else "many")


def played(tmp_path_factory, of_two, of_three):
    """Return folders by number of processes; the single process runs first, so that the others find its kernels."""
    outs, started = {1: tmp_path_factory.mktemp("ranks1")}, []
    play(outs[1], Shard.split(0, 1, WORLDS), of_two)
    where = {**os.environ, "PYTHONPATH": str(HERE.parents[2]), "OMP_NUM_THREADS": "1"}
    for ranks, runs in ((2, of_two), (3, of_three)):
        if not runs:
            continue
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


def test_ranks_as_threads_learn_the_same_weights_as_one_process(monkeypatch):
    """Without processes, which take seconds to start: rollouts, metrics and weights; some updates stop early."""
    settings, together = config("spread"), Together(2)
    for module in (shard_module, sharded_reducer):
        monkeypatch.setattr(module, "all_reduce_sum", together.total)

    def collector(shard):
        core = make_train_core(settings, shard.num_envs, settings.seed, **shard.core_settings)
        return Collector(settings, core, LearnerGroup(settings, core, shard=shard))

    alone, *ranks = (collector(Shard.split(*share, WORLDS)) for share in ((0, 1), (0, 2), (1, 2)))
    learners = [each.learners.assignments["agent"].learner for each in (alone, *ranks)]
    before = {name: tensor.clone() for name, tensor in learners[0].net.state_dict().items()}
    steps = set()
    for update in range(1, ITERATIONS + 1):
        for each in (alone, *ranks):
            each.collect()
        for name in ("obs", "action", "reward"):
            whole, *parts = (getattr(learner.rollout, name) for learner in learners)
            assert torch.equal(torch.cat(parts, 1), whole), name
        wanted = alone.learners.update(update, str)
        for row in together.each(lambda each, update=update: each.learners.update(update, str), ranks):
            assert row == pytest.approx(wanted, rel=1e-3, abs=1e-4)
        steps.add(wanted["agent/gradient_steps"])
    whole, *parts = (learner.net.state_dict() for learner in learners)
    assert max((whole[name] - before[name]).abs().max() for name in whole if "weight" in name) > 1e-3
    for name, tensor in whole.items():
        assert_near(tensor, parts[0][name], name)
        assert torch.equal(parts[0][name], parts[1][name]), name
    assert steps == {6.0, 9.0}


def test_ranks_as_threads_average_the_results_of_the_episodes_of_all_worlds(monkeypatch):
    announce(monkeypatch, "Climbers-v0", climbers)
    together, learner = Together(2), PPOConfig(rollout_length=12, hidden_sizes=(8,))
    settings = TrainConfig("Climbers-v0", num_envs=8, num_threads=1, learner=learner)
    monkeypatch.setattr(sharded_reducer, "all_reduce_sum", together.total)
    monkeypatch.setattr(Shard, "all_gather", lambda shard, values: [values])

    def collect(shard):
        core = make_train_core(settings, shard.num_envs, settings.seed, **shard.core_settings)
        collector = Collector(settings, core, LearnerGroup(settings, core, shard=shard))
        collector.collect()
        return collector

    alone, *ranks = (collect(Shard.split(*share, 8)) for share in ((0, 1), (0, 2), (1, 2)))
    columns = ("climber/episode_return_mean", "climber/height_mean", "climber/is_high_mean")
    row = alone.episodes.read()
    expected = [row[name] for name in columns]
    for rank in ranks:
        assert rank.episodes.read()["climber/height_mean"] != pytest.approx(row["climber/height_mean"])
    for row in together.each(lambda each: each.episodes.read(each.learners.reducer), ranks):
        assert [row[name] for name in columns] == pytest.approx(expected)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    return {**RUNS, **MORE_RUNS}[run][0]


@pytest.mark.slow
def test_runs_cover_uneven_rows_and_early_stopping(many):
    """Valid rows are uneven over steps and ranks, and an update is stopped by its divergence."""
    counts = [torch.stack(part["first"]["runner"]["counts"]) for part in held(many[3], "recurrent_tag", 3)]
    assert all(len(count.unique()) > 1 for count in counts)
    assert not torch.equal(counts[1], counts[2])  # with two worlds each
    steps = {float(row["agent/gradient_steps"]) for row in read_rows(many[2] / "spread" / "metrics.csv")}
    assert steps == {6.0, 9.0}


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_sharded_run_resumes_bit_for_bit(many, ranks):
    whole, again = (checkpoint.load(many[ranks] / name).state for name in ("recurrent_tag", "again"))
    for name, value in whole.items():
        same = torch.equal(value, again[name]) if isinstance(value, torch.Tensor) else value == again[name]
        assert same or name == "trainer.seconds", name


@pytest.mark.slow
def test_one_process_resumes_a_sharded_run(many, tmp_path):
    middle = checkpoint.load(many[3] / "recurrent_tag" / "checkpoints" / "000000002")
    trainer = train("recurrent_tag", tmp_path / "on", Shard.split(0, 1, WORLDS), middle)[1]
    for policy, net in held(many[1], "recurrent_tag", 1)[0]["nets"].items():
        for name, tensor in trainer.assignments[policy].learner.net.state_dict().items():
            assert_near(net[name], tensor, name)


@pytest.mark.slow
@pytest.mark.parametrize("run", ACROSS)
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


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_signal_to_one_rank_ends_training_on_all(many, ranks):
    assert [part["iteration"] for part in held(many[ranks], "stopped", ranks)] == [3] * ranks
    assert checkpoint.load(many[ranks] / "stopped").iteration == 3


def test_runs_cover_all_algorithms():
    tried = {algorithm for _, _, algorithm, _ in [*RUNS.values(), *MORE_RUNS.values()]}
    assert tried == {*registry.ALGORITHMS} - {"ippo"}  # ppo under another name


@pytest.mark.slow
def test_ranks_on_one_machine_share_its_memory_budget(many):
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    for ranks in (2, 3):
        rooms = [part["room"] for part in held(many[ranks], "recurrent_tag", ranks)]
        assert len(set(rooms)) == 1
        assert 0 < rooms[0] <= pages * size / ranks
