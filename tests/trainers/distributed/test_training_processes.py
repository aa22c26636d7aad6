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

from trainers.algorithms import algorithm_specs
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
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "OMP_NUM_THREADS": "1"}
    for ranks, runs in ((2, of_two), (3, of_three)):
        if not runs:
            continue
        outs[ranks] = out = tmp_path_factory.mktemp(f"ranks{ranks}")
        for rank in range(ranks):
            command = [sys.executable, str(HERE / "shard_run.py"), str(out), str(rank), str(ranks), *runs]
            started.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    errors = [process.communicate(timeout=900)[1] for process in started]
    for process, error in zip(started, errors, strict=True):
        assert process.returncode == 0, error[-3000:]
    return outs


def load_results(out, run, ranks):
    return [torch.load(out / f"{run}-{rank}.pt", weights_only=True) for rank in range(ranks)]


def assert_near(expected, actual, label=""):
    assert (expected.shape, expected.dtype) == (actual.shape, actual.dtype), label
    if expected.is_floating_point():  # unwritten entries are NaN in both
        torch.testing.assert_close(
            actual, expected, rtol=1e-4, atol=1e-5, equal_nan=True, msg=lambda message: f"{label}: {message}"
        )
    else:
        assert torch.equal(expected, actual), label


@pytest.mark.parametrize(
    ("run", "policy", "gradient_steps"),
    [("spread", "agent", {6.0, 9.0}), ("sequence", "agent_0", {6.0}), ("regions", "runner_0", {16.0})],
)
def test_ranks_as_threads_learn_the_same_weights_as_one_process(run, policy, gradient_steps, monkeypatch):
    """Without processes, which take seconds to start: rollouts, metrics and weights; some updates stop early."""
    settings, together = config(run), Together(2)
    for module in (shard_module, sharded_reducer):
        monkeypatch.setattr(module, "all_reduce_sum", together.total)

    def collector(shard):
        core = make_train_core(settings, shard.num_envs, settings.seed, **shard.core_settings)
        return Collector(settings, core, LearnerGroup(settings, core, shard=shard))

    alone, *ranks = (collector(Shard.split(*share, WORLDS)) for share in ((0, 1), (0, 2), (1, 2)))
    learners = [worker.learners.assignments[policy].learner for worker in (alone, *ranks)]
    initial = {name: tensor.clone() for name, tensor in learners[0].net.state_dict().items()}
    steps = set()
    for update in range(1, ITERATIONS + 1):
        for worker in (alone, *ranks):
            worker.collect()
        for name in ("obs", "action", "reward"):
            reference, *parts = (getattr(learner.rollout, name) for learner in learners)
            assert torch.equal(torch.cat(parts, 1), reference), name
        expected = alone.learners.update(update, str)
        for row in together.map(lambda worker, update=update: worker.learners.update(update, str), ranks):
            assert row == pytest.approx(expected, rel=1e-3, abs=1e-4)
        steps.add(expected[f"{policy}/gradient_steps"])
    reference, *parts = (learner.net.state_dict() for learner in learners)
    assert max((reference[name] - initial[name]).abs().max() for name in reference if "weight" in name) > 1e-3
    for name, tensor in reference.items():
        assert_near(tensor, parts[0][name], name)
        assert torch.equal(parts[0][name], parts[1][name]), name
    assert steps == gradient_steps


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
    for row in together.map(lambda worker: worker.episodes.read(worker.learners.reducer), ranks):
        assert [row[name] for name in columns] == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "run"), CASES)
def test_ranks_learn_the_same_weights_as_one_process(outs, ranks, run):
    reference, parts = load_results(outs[1], run, 1)[0], load_results(outs[ranks], run, ranks)
    previous = checkpoint.load(outs[1] / run / "checkpoints" / "000000002").state
    for policy, net in reference["nets"].items():
        moved = [(net[name] - previous[f"learner.{policy}.net.{name}"]).abs().max() for name in net if "weight" in name]
        assert max(moved) > 1e-3  # so that tolerances are meaningful
        for name, tensor in net.items():
            assert_near(tensor, parts[0]["nets"][policy][name], name)
            assert all(torch.equal(part["nets"][policy][name], parts[0]["nets"][policy][name]) for part in parts)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "run"), CASES)
def test_rollouts_of_ranks_equal_those_of_one_process(outs, ranks, run):
    reference, parts = load_results(outs[1], run, 1)[0], load_results(outs[ranks], run, ranks)
    assert [part["offset"] for part in parts] == ([0, 4] if ranks == 2 else [0, 3, 5])
    exact = env_of(run) != "Pendulum-v1"  # a mean of actions is rounded depending on the batch
    for policy, rollout in reference["first"].items():
        for name in ("obs", "action", "reward"):
            together, tensor = torch.cat([part["first"][policy][name] for part in parts], 1), rollout[name]
            assert torch.equal(together, tensor) if exact else torch.allclose(together, tensor, atol=1e-5), name
    for part in parts:
        torch.testing.assert_close(part["recent"], reference["recent"], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "run"), CASES)
def test_checkpoints_and_metrics_equal_those_of_one_process(outs, ranks, run):
    first, other = checkpoint.load(outs[1] / run), checkpoint.load(outs[ranks] / run)
    assert (first.iteration, first.steps, first.policies) == (other.iteration, other.steps, other.policies)
    assert first.state.keys() == other.state.keys()
    for name, value in first.state.items():
        if not isinstance(value, torch.Tensor):
            assert name == "trainer.seconds" or value == pytest.approx(other.state[name])
        elif exact_or_learned(run, name):
            assert_near(value, other.state[name], name)
        else:
            assert (value.shape, value.dtype) == (other.state[name].shape, other.state[name].dtype)
    rows = [read_rows(outs[ranks_] / run / "metrics.csv") for ranks_ in (1, ranks)]
    assert len(rows[0]) == len(rows[1]) == ITERATIONS
    for mine, row in zip(*rows, strict=True):
        assert mine.keys() == row.keys()
        for name in mine:
            if "second" not in name and not name.startswith("time/"):
                expected = pytest.approx(float(mine[name]), rel=1e-3, abs=1e-4) if mine[name] else ""
                assert (float(row[name]) if row[name] else "") == expected, name


def exact_or_learned(run, name):
    """Exclude numbers of worlds whose dynamics amplify rounding of actions."""
    return env_of(run) != "Pendulum-v1" or not name.startswith("core.")


def env_of(run):
    return {**RUNS, **MORE_RUNS}[run][0]


@pytest.mark.slow
def test_runs_cover_uneven_rows_and_early_stopping(many):
    """Valid rows are uneven over steps and ranks, and an update is stopped by its divergence."""
    counts = [torch.stack(part["first"]["runner"]["counts"]) for part in load_results(many[3], "recurrent_tag", 3)]
    assert all(len(count.unique()) > 1 for count in counts)
    assert not torch.equal(counts[1], counts[2])  # with two worlds each
    steps = {float(row["agent/gradient_steps"]) for row in read_rows(many[2] / "spread" / "metrics.csv")}
    assert steps == {6.0, 9.0}


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_sharded_run_resumes_bit_for_bit(many, ranks):
    uninterrupted, resumed = (checkpoint.load(many[ranks] / name).state for name in ("recurrent_tag", "again"))
    for name, value in uninterrupted.items():
        same = torch.equal(value, resumed[name]) if isinstance(value, torch.Tensor) else value == resumed[name]
        assert same or name == "trainer.seconds", name


@pytest.mark.slow
def test_one_process_resumes_a_sharded_run(many, tmp_path):
    middle = checkpoint.load(many[3] / "recurrent_tag" / "checkpoints" / "000000002")
    trainer = train("recurrent_tag", tmp_path / "on", Shard.split(0, 1, WORLDS), middle)[1]
    for policy, net in load_results(many[1], "recurrent_tag", 1)[0]["nets"].items():
        for name, tensor in trainer.assignments[policy].learner.net.state_dict().items():
            assert_near(net[name], tensor, name)


@pytest.mark.slow
@pytest.mark.parametrize("run", ACROSS)
def test_replay_is_resumed_with_any_number_of_processes(outs, run, tmp_path):
    """From one process to two and back to one, with hidden states and pending decisions in between."""
    across = checkpoint.load(outs[2] / f"{run}-across")
    assert (across.iteration, checkpoint.load(outs[2] / f"{run}-alone").iteration) == (4, 2)
    train(run, tmp_path / "on", Shard.split(0, 1, WORLDS), across)
    first, other = (checkpoint.load(out).state for out in (outs[1] / run, tmp_path / "on"))
    assert any(".replay." in name for name in first)
    for name, value in first.items():
        if isinstance(value, torch.Tensor):
            assert_near(value, other[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_signal_to_one_rank_ends_training_on_all(many, ranks):
    assert [part["iteration"] for part in load_results(many[ranks], "stopped", ranks)] == [3] * ranks
    assert checkpoint.load(many[ranks] / "stopped").iteration == 3


def test_runs_cover_all_algorithms():
    tried = {algorithm for _, _, algorithm, _ in [*RUNS.values(), *MORE_RUNS.values()]}
    assert tried == {*algorithm_specs.ALGORITHMS} - {"ippo"}  # ppo under another name


@pytest.mark.slow
def test_ranks_on_one_machine_share_its_memory_budget(many):
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    for ranks in (2, 3):
        rooms = [part["room"] for part in load_results(many[ranks], "recurrent_tag", ranks)]
        assert len(set(rooms)) == 1
        assert 0 < rooms[0] <= pages * size / ranks
