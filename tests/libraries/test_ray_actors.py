"""Actors on a Ray cluster: the rollouts of local actors, exact counts while actors and learner are killed."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import ray
from torch import equal

from gpu_envs.errors import ConfigError, GpuEnvsError
from trainers.algorithms import algorithm_specs
from trainers.cli.train import train_command
from trainers.cluster.connect import connect
from trainers.cluster.ray_actors import ray_actors
from trainers.cluster.ray_train import train_distributed
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows

STEPS = 32
"""Environment steps of a rollout."""
COUNTS = ("started", "learned", "dropped", "lost")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    connect("the tests", "local", num_cpus=3, object_store_memory=100_000_000)
    yield
    ray.shutdown()


def config(iterations=10, num_actors=1, **changes):
    learner = algorithm_specs.find("impala").settings(rollout_length=8, hidden_sizes=(16,))
    return TrainConfig(
        "CartPole-v1", num_envs=4, total_steps=iterations * STEPS, algorithm="impala", learner=learner, num_threads=1,
        eval_episodes=0, num_actors=num_actors, checkpoint_interval=10, **changes,
    )  # fmt: skip


def counts_of(run):
    state = checkpoint.load(run).state
    return {name: state[f"actors.{name}"] for name in COUNTS}


def check_counts(run, iterations):
    counts, rows = counts_of(run), read_rows(run / "metrics.csv")
    assert counts["started"] == counts["learned"] + counts["dropped"] + counts["lost"]
    assert counts["learned"] == iterations
    assert [int(row["env_steps"]) for row in rows] == [STEPS * (number + 1) for number in range(iterations)]
    return counts


def test_one_actor_on_ray_equals_one_in_a_thread(tmp_path):
    """With a learner that always waits, the order of rollouts is determined."""
    trainers = {}
    for name, source in (("ray", ray_actors()), ("thread", None)):
        trainers[name] = trainer = Trainer(config(), tmp_path / name, actors=source)
        begin, turn = trainer.collector.queue.begin, threading.Semaphore(1)  # one rollout at a time
        trainer.collector.queue.begin = lambda begin=begin, turn=turn: turn.acquire() and begin()
        learned = trainer.collector.queue.learned

        def in_turn(learned=learned, turn=turn, queue=trainer.collector.queue):
            is_taken = queue.next_version > queue.version
            learned()
            if is_taken:
                turn.release()

        trainer.collector.queue.learned = in_turn
        close = trainer.collector.queue.close
        trainer.collector.queue.close = lambda close=close, turn=turn: (close(), turn.release())
        trainer.run()
    nets = [trainer.assignments["agent"].learner.net.state_dict() for trainer in trainers.values()]
    assert all(equal(tensor, nets[1][name]) for name, tensor in nets[0].items())


def play_with_faults(path, kills, seed, iterations):
    """Train while actors are killed at random; return the number of kills."""
    rng, proxies, done = random.Random(seed), [], threading.Event()
    source = ray_actors()

    def watched(config, factory):
        make, is_local = source(config, factory)

        def remember(number, closed):
            proxies.append(make(number, closed))
            return proxies[-1]

        return remember, is_local

    trainer = Trainer(config(iterations, num_actors=2, max_staleness=3), path, actors=watched)
    killed, rollouts = set(), []

    def kill():
        """Kill two actors at most without a rollout between: the training would end after `MAX_LOSSES`."""
        while len(killed) < kills and not done.is_set():
            time.sleep(rng.uniform(0.0, 0.3))
            if rollouts[-2:] == [trainer.collector.actors.rollouts] * 2:
                continue
            alive = [proxy.pid for proxy in proxies if proxy.pid not in killed and os.path.exists(f"/proc/{proxy.pid}")]
            if alive:
                killed.add(pid := rng.choice(alive))
                rollouts.append(trainer.collector.actors.rollouts)
                os.kill(pid, signal.SIGKILL)
        trainer.stop(signal.SIGTERM)  # after the last fault a few more iterations are enough

    chaos = threading.Thread(target=kill)
    chaos.start()
    try:
        trainer.run()
    finally:
        done.set()
        chaos.join()
    return trainer, len(killed)


@pytest.mark.parametrize("kills", [4, pytest.param(30, marks=pytest.mark.slow)])
def test_killed_actors_cost_only_their_rollouts(tmp_path, kills):
    trainer, killed = play_with_faults(tmp_path / "run", kills, seed=kills, iterations=1_000_000)
    assert killed == kills
    counts = check_counts(tmp_path / "run", trainer.iteration)
    assert counts["lost"] >= 1
    assert trainer.collector.queue.accounts.actors >= kills


def test_killed_learner_resumes_from_its_checkpoint(tmp_path):
    run, script = tmp_path / "run", Path(__file__).with_name("ray_actors_run.py")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    for attempt, stop in enumerate(("40", "never")):  # the first process waits there for the signal
        with subprocess.Popen([sys.executable, str(script), str(run), stop], env=environ) as process:
            if attempt == 1:
                assert process.wait(600) == 0
                break
            deadline = time.monotonic() + 300
            while not any(int(path.name) >= 20 for path in checkpoint.every(run / "checkpoints")):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            process.kill()
    counts = check_counts(run, 60)
    assert counts["lost"] >= 1  # those on their way at the kills


def test_actor_starts_when_the_cluster_has_room(tmp_path):
    """Two actors need two CPUs, and another program has two of three at first."""

    class Blocker:  # of this function: Ray sends the class itself, because workers cannot import the test
        def ready(self):
            """Return when the actor has its CPUs."""

    blocker = ray.remote(num_cpus=2)(Blocker).remote()
    ray.get(blocker.ready.remote())
    trainer = Trainer(config(1_000_000, num_actors=2), tmp_path / "run", actors=ray_actors())
    counts = []

    def num_begun():
        return sum(start is not None for start in trainer.collector.actors.started)

    def wait_for(count, iterations):
        deadline = time.monotonic() + 300
        while (num_begun() < count or trainer.iteration < iterations) and time.monotonic() < deadline:
            time.sleep(0.05)
        counts.append(num_begun())

    def watch():
        try:
            wait_for(1, 20)
            ray.kill(blocker)
            wait_for(2, 0)
        finally:  # otherwise the training would not end
            trainer.stop(signal.SIGTERM)

    watcher = threading.Thread(target=watch)
    watcher.start()
    trainer.run()
    watcher.join()
    assert counts == [1, 2]
    check_counts(tmp_path / "run", trainer.iteration)


def test_errors_in_actors_are_those_of_the_training(tmp_path):
    missing = config(actor_device="cuda:7")
    with pytest.raises(GpuEnvsError, match="device"):
        Trainer(missing, tmp_path / "run", actors=ray_actors()).run()


def test_workers_and_actors_exclude_each_other(tmp_path):
    with pytest.raises(ConfigError, match="num_actors: expected 0 with num_workers, got 1"):
        train_distributed(config(), tmp_path / "run", num_workers=2)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_command_trains_with_actors_on_the_cluster(env_id, tmp_path, capsys):
    argv = [env_id, "--algorithm", "impala", "--num-actors", "1", "--total-steps", "2048", "--device", "cpu"]
    argv += ["--ray-address", "local", "--eval-episodes", "0", "--no-video", "--run-dir", str(tmp_path / "run")]
    assert train_command(argv) == 0
    assert "1 actors x" in capsys.readouterr().out
