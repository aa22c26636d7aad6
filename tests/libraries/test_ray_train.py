"""Training under Ray: workers together are one process, and go on where one of them was killed."""

import dataclasses
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import ray
import torch

from gpu_envs import id_modules
from gpu_envs.errors import ConfigError, GpuEnvsError
from trainers import algorithms, checkpoint
from trainers.cluster import data_parallel
from trainers.cluster.connect import connect
from trainers.commands import train_command
from trainers.config import TrainConfig
from trainers.folder_lock import FolderLock
from trainers.loop import Trainer
from trainers.stopping import DivergedError

ITERATIONS = 60


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    connect("the tests", "local", num_cpus=2, num_gpus=1, object_store_memory=100_000_000)
    yield
    ray.shutdown()


REPLAY = {"rollout_length": 8, "hidden": (16,), "updates": 2, "batch_size": 16, "learning_starts": 80}


def config(iterations=ITERATIONS, algorithm="ppo", **learner):
    """Nine worlds: one worker has one more."""
    settings = {"rollout_length": 8, "hidden": (16,), "epochs": 2, "minibatches": 2}
    settings = (settings if algorithm == "ppo" else REPLAY) | learner
    return TrainConfig(
        "CartPole-v1", num_envs=9, total_steps=9 * 8 * iterations, seed=1, threads=1, checkpoint_every=5,
        keep_last=99, eval_episodes=0, algorithm=algorithm, learner=algorithms.find(algorithm).settings(**settings),
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run of two workers whom nothing befell."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert data_parallel.train(config(), out, shards=2) == out / "checkpoints" / f"{ITERATIONS:09d}"
    return out


def test_two_workers_learn_what_one_process_does(whole, tmp_path):
    trainer = Trainer(config(), tmp_path / "alone")
    for _ in range(5):
        trainer.iterate()
    one, two = (checkpoint.load(out / "checkpoints" / "000000005") for out in (tmp_path / "alone", whole))
    assert one.steps == two.steps == 5 * 9 * 8
    assert one.state.keys() == two.state.keys()
    assert_near(one, two)
    assert TrainConfig.from_json(two.config) == config()


def assert_near(one, two):
    """But for how sums round."""
    for name, value in one.state.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(two.state[name], value, rtol=1e-4, atol=1e-5, equal_nan=True, msg=name)


def test_a_replay_goes_from_one_process_to_two_workers_and_back(tmp_path):
    def made(iterations):  # schedules do not depend on how long it is
        steady = {"learning_rate_end": 1e-3, "epsilon": 0.5, "epsilon_end": 0.5, "priority_beta": 1.0}
        return config(iterations, "dqn", prioritized=True, n_step=3, **steady)

    alone, out = Trainer(made(6), tmp_path / "alone").run(), tmp_path / "run"
    begun = Trainer(made(2), out).run()
    shared = data_parallel.train(made(4), out, shards=2, resume=checkpoint.load(begun))
    ended = Trainer(made(6), out, checkpoint.load(shared)).run()
    one, other = checkpoint.load(alone), checkpoint.load(ended)
    assert one.steps == other.steps == 6 * 9 * 8
    assert any(".replay." in name for name in one.state)
    assert one.state.keys() == other.state.keys()
    assert_near(one, other)


def workers_of(process: int) -> list[int]:
    """Ray Train's workers among what this process has started."""
    children: dict[int, list[int]] = {}
    names = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found, todo = [], [process]
    while todo:
        todo += (below := children.get(todo.pop(), []))
        found += [each for each in below if "RayTrainWorker" in names[each]]
    return found


def test_goes_on_where_a_worker_was_killed(whole, tmp_path):
    out, killed = tmp_path / "run", []

    def kill():
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and not killed:
            if (out / "checkpoints" / "000000010").exists() and (workers := workers_of(os.getpid())):
                os.kill(workers[-1], signal.SIGKILL)
                killed.append(checkpoint.find(out).name)
            time.sleep(0.005)

    thread = threading.Thread(target=kill)
    thread.start()
    last = data_parallel.train(config(), out, shards=2)
    thread.join()
    assert killed
    assert int(killed[0]) < ITERATIONS
    for name, value in checkpoint.load(whole).state.items():
        other = checkpoint.load(last).state[name]
        same = torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other
        assert same or name == "trainer.seconds", name


def test_the_command_goes_on_with_a_run_in_shards(tmp_path, capsys):
    out = tmp_path / "run"
    Trainer(config(iterations=2), out).run()
    longer = str(9 * 8 * 4)
    assert train_command(["--resume", str(out), "--shards", "2", "--total-steps", longer, "--no-video"]) == 0
    assert checkpoint.load(out).iteration == 4
    said = capsys.readouterr().out
    assert "trained 288 steps" in said
    assert str(out / "checkpoints" / "000000004") in said


def test_environment_of_a_module_trains_in_shards(tmp_path):
    """The workers get the module with their task: tabnanny stands for one that nothing else imports."""
    tiny = dataclasses.replace(config(iterations=2), env_id="tabnanny:CartPole-v1")
    id_modules.allow_import("tabnanny")
    assert data_parallel.train(tiny, tmp_path / "run", shards=2).name == "000000002"


def test_run_that_is_being_written_is_refused(tmp_path):
    with FolderLock(tmp_path), pytest.raises(GpuEnvsError, match=f"{tmp_path}: process .* is writing this run"):
        data_parallel.train(config(), tmp_path, shards=2)


def test_what_cannot_be_is_refused_before_anything_starts(tmp_path):
    out = tmp_path / "run"
    cloned = TrainConfig("CartPole-v1", algorithm="bc")
    with pytest.raises(ConfigError, match="algorithm = 'bc': it learns from recorded episodes"):
        data_parallel.train(cloned, out)
    with pytest.raises(ConfigError, match="shards = 10: expected 1 to 9"):
        data_parallel.train(config(), out, shards=10)
    with pytest.raises(GpuEnvsError, match="shards = 3: the cluster has room for 2 workers with 1 CPU each"):
        data_parallel.train(config(), out, shards=3)
    assert not out.exists()


def test_gpus_are_the_clusters(tmp_path, monkeypatch):
    argv = ["CartPole-v1", "--device", "cuda", "--shards", "2", "--out", str(tmp_path / "run"), "--no-video"]
    with pytest.raises(GpuEnvsError, match="room for 1 workers with 1 CPU, 1 GPU each"):
        train_command(argv)
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}])
    with pytest.raises(ConfigError, match="device = 'cuda': expected a cluster with GPUs, got one without; use cpu"):
        train_command(argv)


@pytest.mark.skipif(torch.cuda.is_available(), reason="workers would find the GPU that the cluster claims")
def test_workers_look_for_the_gpu_that_a_cluster_claims(tmp_path):
    on_gpu = dataclasses.replace(config(), device="cuda")
    with pytest.raises(GpuEnvsError, match="was asked for, but torch finds no CUDA GPU here"):
        data_parallel.train(on_gpu, tmp_path / "run", shards=2, gpus_per_worker=0.5, max_failures=0)


def test_what_learners_refuse_is_said_in_a_line_and_not_tried_again(tmp_path):
    sac = algorithms.find("sac").settings(learning_starts=40)
    turns = TrainConfig("TicTacToe-v0", algorithm="sac", learner=sac, num_envs=4, total_steps=100)
    with pytest.raises(ConfigError, match="turns"):
        data_parallel.train(turns, tmp_path / "run", shards=2)


def test_a_training_that_diverges_is_not_tried_again(tmp_path):
    with pytest.raises(DivergedError, match="the training has diverged"):
        data_parallel.train(config(learning_rate=1e30, normalize_obs=False), tmp_path / "run")
