"""Trainings with actors: what is learned from, counted, saved and resumed, and what is refused."""

import dataclasses
import os
import signal
import threading
import time

import pytest
import torch
from simulated_time import SimulatedTime

from gpu_envs.errors import ConfigError, DeviceError, GpuEnvsError
from trainers.algorithms import algorithm_specs
from trainers.base import phase_timer
from trainers.cli.train import train_command
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.actors import actor_threads, async_collector, rollout_actor
from trainers.runner.actors.actor_threads import MAX_LOSSES, ActorLostError
from trainers.runner.actors.rollout_actor import RolloutActor
from trainers.runner.multi_seed import MultiSeedTrainer
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows

ITERATIONS = 8


def config(algorithm="impala", env_id="CartPole-v1", num_actors=1, **changes):
    learner = algorithm_specs.find(algorithm).settings(**{"rollout_length": 8, "hidden_sizes": (16,)})
    settings = {"total_steps": ITERATIONS * 8 * 4, "eval_episodes": 0, "num_threads": 1, **changes}
    return TrainConfig(env_id, num_envs=4, algorithm=algorithm, learner=learner, num_actors=num_actors, **settings)


def rows_of(run):
    return [{name: float(value) for name, value in row.items() if value} for row in read_rows(run / "metrics.csv")]


def accounts(trainer):
    return trainer.collector.queue.accounts


@pytest.mark.parametrize(("actors", "staleness"), [(1, None), (2, None), (2, 5)])
def test_each_step_is_learned_from_once_and_counted(tmp_path, actors, staleness):
    trainer = Trainer(config(num_actors=actors, max_staleness=staleness), tmp_path / "run")
    trajectories, take = [], trainer.collector.queue.take
    trainer.collector.queue.take = lambda: trajectories.append(take()) or trajectories[-1]
    trainer.run()
    counts, rows = accounts(trainer), rows_of(tmp_path / "run")
    assert len({trajectory.number for trajectory in trajectories}) == len(trajectories) == ITERATIONS
    assert trainer.steps == rows[-1]["env_steps"] == sum(trajectory.steps for trajectory in trajectories)
    last = checkpoint.load(tmp_path / "run").state
    assert ITERATIONS <= last["actors.started"] <= counts.started  # rollouts may begin after the last checkpoint
    assert last["actors.learned"] == ITERATIONS
    assert last["actors.started"] == last["actors.learned"] + last["actors.dropped"] + last["actors.lost"]
    assert counts.started == ITERATIONS + counts.dropped + counts.lost
    histogram = [rows[-1][f"actors/staleness_{k}"] for k in range((staleness or actors) + 1)]
    assert sum(histogram) == ITERATIONS
    for row, trajectory in zip(rows, trajectories, strict=True):
        assert 0 <= row["actors/staleness"] == row["iteration"] - 1 - trajectory.version <= (staleness or actors)


@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_all_policies_learn_and_weights_reach_the_actors(tmp_path, algorithm):
    trainer = Trainer(config(algorithm, "SimpleTag-v0"), tmp_path / "run")
    initial = {name: net.learner.net.state_dict() for name, net in trainer.assignments.items()}
    initial = {name: {key: value.clone() for key, value in net.items()} for name, net in initial.items()}
    trainer.run()
    published = trainer.collector.actors.published
    assert published.version == ITERATIONS - 1
    for name, net in published.weights.items():
        assert max((net[key] - value).abs().max() for key, value in initial[name].items()) > 1e-4
        assert not any(torch.equal(value, trainer.assignments[name].learner.net.state_dict()[key])
                       for key, value in net.items() if key.endswith("weight") and "actor" in key)  # fmt: skip


def test_training_resumes_with_its_counts(tmp_path):
    half = config(total_steps=ITERATIONS * 16)
    Trainer(half, tmp_path / "run").run()
    saved = checkpoint.load(tmp_path / "run")
    resumed = Trainer(dataclasses.replace(half, total_steps=ITERATIONS * 32), tmp_path / "run", saved)
    assert resumed.collector.queue.version == ITERATIONS // 2
    resumed.run()
    counts = accounts(resumed)
    assert counts.learned == ITERATIONS - 1  # the last one is counted by the checkpoint
    assert counts.actors == 2
    assert checkpoint.load(tmp_path / "run").state["actors.learned"] == ITERATIONS


def test_training_continues_with_and_without_actors(tmp_path):
    """Runs can gain and lose actors."""
    for steps, actors in ((2, 0), (4, 1), (6, 0), (8, 2)):
        saved = checkpoint.load(tmp_path / "run") if steps > 2 else None
        Trainer(config(num_actors=actors, total_steps=steps * 32), tmp_path / "run", saved).run()
    assert checkpoint.load(tmp_path / "run").iteration == 8


def test_error_of_an_actor_ends_the_training(tmp_path):
    class Broken(RolloutActor):
        def sample(self, number, *arguments):
            if number == 3:
                raise GpuEnvsError("the third rollout failed")
            return super().sample(number, *arguments)

    def source(config, factory):
        return lambda number, _: Broken(config, number, factory), True

    trainer = Trainer(config(), tmp_path / "run", actors=source)
    with pytest.raises(GpuEnvsError, match="the third rollout failed"):
        trainer.run()
    assert not any(thread.is_alive() for thread in trainer.collector.actors.threads)


def test_lost_actors_are_replaced_and_counted(tmp_path):
    class Mortal(RolloutActor):
        def sample(self, number, *arguments):
            if number % 3 == 1:
                raise ActorLostError("gone")
            return super().sample(number, *arguments)

    def source(config, factory):
        return lambda number, _: Mortal(config, number, factory), True

    trainer = Trainer(config(num_actors=2), tmp_path / "run", actors=source)
    trainer.run()
    counts = accounts(trainer)
    assert trainer.steps == ITERATIONS * 32
    assert counts.lost >= 3
    assert counts.actors >= 5


def test_signal_ends_a_training_whose_actors_have_no_room(tmp_path):
    """The first signal is enough, and a checkpoint is written."""
    closing = threading.Event()

    def source(config, factory):
        def make(number, closed):
            os.kill(os.getpid(), signal.SIGTERM)  # the learner waits for a rollout, or soon will
            while not closed():
                time.sleep(0.01)
            closing.set()
            raise ActorLostError("the training has ended")

        return make, False

    trainer = Trainer(config(), tmp_path / "run", actors=source)
    trainer.run()
    assert trainer.stopped_by == signal.SIGTERM
    assert closing.is_set()
    assert checkpoint.load(tmp_path / "run").iteration == trainer.iteration == 0


def test_training_ends_if_no_actor_stays_alive(tmp_path):
    def source(config, factory):
        def make(number, closed):
            raise ActorLostError("no memory")

        return make, False

    trainer = Trainer(config(), tmp_path / "run", actors=source)
    with pytest.raises(GpuEnvsError, match=f"actor 0: {MAX_LOSSES} actors were lost one after another.*no memory"):
        trainer.run()
    assert trainer.collector.queue.accounts.actors == MAX_LOSSES


@pytest.mark.parametrize(
    ("rollout", "update", "busy"), [(8.0, 8.0, (1.0, 1.0)), (16.0, 8.0, (1.0, 0.5)), (8.0, 16.0, (0.5, 1.0))]
)
def test_actor_and_learner_work_at_the_same_time(tmp_path, monkeypatch, rollout, update, busy):
    """The slower one is busy all the time, where both take turns without actors. Only sleeps take time here."""

    def timed(num_actors):
        clock = SimulatedTime(1 + num_actors)
        for module in (actor_threads, async_collector, rollout_actor, phase_timer):
            monkeypatch.setattr(module, "time", clock)

        def slow_core(config, num_envs, seed, **settings):
            core = make_train_core(config, num_envs, seed, **settings)
            step = core.step
            core.step = lambda action: clock.sleep(rollout / 8) or step(action)
            return core

        steps = 25 * 32
        trainer = Trainer(config(num_actors=num_actors, total_steps=steps), tmp_path / f"{num_actors}", None, slow_core)
        if num_actors:
            close = trainer.collector.close
            trainer.collector.queue._changed = clock.condition()
            trainer.collector.close = lambda: clock.suspend() or close()  # it waits for the actor's last rollout
        learn = trainer.learners.update
        trainer.learners.update = lambda *arguments: clock.sleep(update) or learn(*arguments)
        trainer.run()
        return rows_of(tmp_path / f"{num_actors}")

    for row in timed(0)[1:]:
        assert row["time/update"] == update
        assert sum(seconds for name, seconds in row.items() if name.startswith("time/")) == rollout + update
    last = timed(1)[-1]
    assert last["actors/utilization"] == pytest.approx(busy[0], abs=0.05)  # the last rollout has not ended
    assert last["actors/learner_utilization"] == pytest.approx(busy[1], abs=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "ppo"}, "num_actors = 1: expected algorithm appo or impala"),
        ({"num_actors": 3, "max_staleness": 2}, "max_staleness: expected at least num_actors = 3"),
        ({"num_actors": 0, "max_staleness": 2}, "max_staleness"),
        ({"num_actors": 0, "actor_device": "cpu"}, "actor_device"),
        ({"actor_device": "gpu"}, "actor_device: expected cpu, cuda or cuda:N, got 'gpu'"),
        ({"actor_device": "cuda:99"}, "cuda:99"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises((ConfigError, DeviceError), match=message):
        Trainer(config(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_several_seeds_refuse_actors(tmp_path):
    with pytest.raises(ConfigError, match="num_actors: expected 0 with several seeds, got 1"):
        MultiSeedTrainer(config(), 2, tmp_path / "runs")


@pytest.mark.slow
def test_command_trains_with_actors(tmp_path, capsys):
    argv = ["CartPole-v1", "--algorithm", "appo", "--num-actors", "2", "--total-steps", "4096", "--eval-episodes", "0"]
    assert train_command([*argv, "--no-video", "--device", "cpu", "--run-dir", str(tmp_path / "run")]) == 0
    assert "2 actors x 64 worlds on cpu" in capsys.readouterr().out
