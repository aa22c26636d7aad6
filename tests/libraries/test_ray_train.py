"""Training with Ray: workers give the results of one process, and a killed worker does not change them."""

import dataclasses
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import ray
import torch

from gpu_envs.definition import id_modules
from gpu_envs.errors import ConfigError, GpuEnvsError
from trainers.algorithms import algorithm_specs
from trainers.cli.train import train_command
from trainers.cluster import ray_train
from trainers.cluster.connect import connect
from trainers.config.train_config import TrainConfig
from trainers.runner.early_stopping import DivergedError
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.folder_lock import FolderLock

ITERATIONS = 60


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    connect("the tests", "local", num_cpus=2, num_gpus=1, object_store_memory=100_000_000)
    yield
    ray.shutdown()


REPLAY = {"rollout_length": 8, "hidden_sizes": (16,), "updates": 2, "batch_size": 16, "learning_starts": 80}


def config(iterations=ITERATIONS, algorithm="ppo", **learner):
    """Nine worlds: one worker has one more."""
    settings = {"rollout_length": 8, "hidden_sizes": (16,), "num_epochs": 2, "num_minibatches": 2}
    settings = (settings if algorithm == "ppo" else REPLAY) | learner
    return TrainConfig(
        "CartPole-v1", num_envs=9, total_steps=9 * 8 * iterations, seed=1, num_threads=1, checkpoint_interval=5,
        keep_last_checkpoints=99, eval_episodes=0, algorithm=algorithm,
        learner=algorithm_specs.find(algorithm).settings(**settings),
    )  # fmt: skip


@pytest.fixture(scope="module")
def full_run(tmp_path_factory):
    """Return the run of two workers without a fault."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert ray_train.train_distributed(config(), out, num_workers=2) == out / "checkpoints" / f"{ITERATIONS:09d}"
    return out


def test_two_workers_learn_the_weights_of_one_process(full_run, tmp_path):
    trainer = Trainer(config(), tmp_path / "alone")
    for _ in range(5):
        trainer.iterate()
    first, second = (checkpoint.load(out / "checkpoints" / "000000005") for out in (tmp_path / "alone", full_run))
    assert first.steps == second.steps == 5 * 9 * 8
    assert first.state.keys() == second.state.keys()
    assert_near(first, second)
    assert TrainConfig.from_json(second.config) == config()


def assert_near(first, second):
    """But for how sums round."""
    for name, value in first.state.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(second.state[name], value, rtol=1e-4, atol=1e-5, equal_nan=True, msg=name)


def test_replay_moves_from_one_process_to_two_workers_and_back(tmp_path):
    def make_config(iterations):  # schedules do not depend on how long it is
        steady = {"learning_rate_final": 1e-3, "epsilon": 0.5, "epsilon_final": 0.5, "priority_beta": 1.0}
        return config(iterations, "dqn", prioritized=True, n_step=3, **steady)

    alone, out = Trainer(make_config(6), tmp_path / "alone").run(), tmp_path / "run"
    start = Trainer(make_config(2), out).run()
    shared = ray_train.train_distributed(make_config(4), out, num_workers=2, resume=checkpoint.load(start))
    ended = Trainer(make_config(6), out, checkpoint.load(shared)).run()
    first, other = checkpoint.load(alone), checkpoint.load(ended)
    assert first.steps == other.steps == 6 * 9 * 8
    assert any(".replay." in name for name in first.state)
    assert first.state.keys() == other.state.keys()
    assert_near(first, other)


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
    workers, todo = [], [process]
    while todo:
        todo += (below := children.get(todo.pop(), []))
        workers += [child for child in below if "RayTrainWorker" in names[child]]
    return workers


def test_training_resumes_after_a_killed_worker(full_run, tmp_path):
    for attempt in range(5):  # on a busy machine it may be through before it is hit
        out = tmp_path / f"{attempt}"
        if killed := trained_with_a_kill(out):
            break
    assert killed
    for name, value in checkpoint.load(full_run).state.items():
        other = checkpoint.load(out).state[name]
        same = torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other
        assert same or name == "trainer.seconds", name


def trained_with_a_kill(out):
    """Train with two workers, one of which is killed; return the newest checkpoint then; [] if it was the last one."""
    killed, over = [], threading.Event()

    def kill():
        while not over.is_set() and not killed:
            if (out / "checkpoints" / "000000010").exists() and (workers := workers_of(os.getpid())):
                os.kill(workers[-1], signal.SIGKILL)
                killed.append(checkpoint.find(out).name)
            time.sleep(0.005)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        ray_train.train_distributed(config(), out, num_workers=2)
    finally:
        over.set()
        thread.join()
    return killed if killed and int(killed[0]) < ITERATIONS else []


def test_command_resumes_a_run_with_workers(tmp_path, capsys):
    out = tmp_path / "run"
    Trainer(config(iterations=2), out).run()
    longer = str(9 * 8 * 4)
    assert train_command(["--resume", str(out), "--num-workers", "2", "--total-steps", longer, "--no-video"]) == 0
    assert checkpoint.load(out).iteration == 4
    output = capsys.readouterr().out
    assert "trained 288 steps" in output
    assert str(out / "checkpoints" / "000000004") in output


@pytest.mark.parametrize("env_id", ["tabnanny:CartPole-v1", "gymnasium:CartPole-v1"])
def test_environments_of_a_module_and_of_a_library_train_in_shards(env_id, tmp_path):
    """The workers get the module with their task: tabnanny stands for one that nothing else imports."""
    tiny = dataclasses.replace(config(iterations=2), env_id=env_id)
    id_modules.allow_import("tabnanny")
    assert ray_train.train_distributed(tiny, tmp_path / "run", num_workers=2).name == "000000002"


def test_run_that_is_being_written_is_refused(tmp_path):
    with FolderLock(tmp_path), pytest.raises(GpuEnvsError, match=f"{tmp_path}: process .* is writing this run"):
        ray_train.train_distributed(config(), tmp_path, num_workers=2)


def test_invalid_arguments_are_refused_before_the_start(tmp_path):
    out = tmp_path / "run"
    cloned = TrainConfig("CartPole-v1", algorithm="bc")
    with pytest.raises(ConfigError, match="algorithm: expected an algorithm that trains by acting, got 'bc'"):
        ray_train.train_distributed(cloned, out)
    with pytest.raises(ConfigError, match=r"num_workers: expected 1 to 9, .*, got 10"):
        ray_train.train_distributed(config(), out, num_workers=10)
    with pytest.raises(GpuEnvsError, match="num_workers = 3: the cluster has resources for 2 workers with 1 CPU each"):
        ray_train.train_distributed(config(), out, num_workers=3)
    assert not out.exists()


def test_gpus_of_the_cluster_are_used(tmp_path, monkeypatch):
    argv = ["CartPole-v1", "--device", "cuda", "--num-workers", "2", "--run-dir", str(tmp_path / "run"), "--no-video"]
    with pytest.raises(GpuEnvsError, match="resources for 1 workers with 1 CPU, 1 GPU each"):
        train_command(argv)
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}])
    with pytest.raises(ConfigError, match="device='cuda': expected a cluster with GPUs, got none; use device='cpu'"):
        train_command(argv)


@pytest.mark.skipif(torch.cuda.is_available(), reason="workers would find the GPU that the cluster claims")
def test_workers_look_for_the_gpu_that_a_cluster_claims(tmp_path):
    on_gpu = dataclasses.replace(config(), device="cuda")
    with pytest.raises(GpuEnvsError, match="was asked for, but torch finds no CUDA GPU here"):
        ray_train.train_distributed(on_gpu, tmp_path / "run", num_workers=2, gpus_per_worker=0.5, max_failures=0)


def test_errors_of_learners_are_one_line_without_restart(tmp_path):
    sac = algorithm_specs.find("sac").settings(learning_starts=40)
    turns = TrainConfig("TicTacToe-v0", algorithm="sac", learner=sac, num_envs=4, total_steps=100)
    with pytest.raises(ConfigError, match="sac: expected agents that all act at every step, got a turn-based game"):
        ray_train.train_distributed(turns, tmp_path / "run", num_workers=2)


def test_diverged_training_is_not_restarted(tmp_path):
    with pytest.raises(DivergedError, match="the training has diverged"):
        ray_train.train_distributed(config(learning_rate=1e30, normalize_obs=False), tmp_path / "run")
