"""Trainings that begin with the policies of a checkpoint."""

import dataclasses
from pathlib import Path

import pytest
import torch
from small_commands import no_curves  # noqa: F401

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms import algorithm_specs
from trainers.cli.train import train_command
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

SMALL = {"rollout_length": 8, "hidden_sizes": (16,)}


def config(env_id="SimpleTag-v0", iterations=2, algorithm="ppo", learner=SMALL, **changes):
    settings = algorithm_specs.find(algorithm).settings(**learner)
    return TrainConfig(
        env_id, num_envs=4, total_steps=iterations * 32, algorithm=algorithm, learner=settings, num_threads=1,
        eval_episodes=0, **changes,
    )  # fmt: skip


def nets_of(trainer):
    return {name: assignment.learner.net.state_dict() for name, assignment in trainer.assignments.items()}


@pytest.fixture
def trained(tmp_path):
    trainer = Trainer(config(seed=7), tmp_path / "trained")
    trainer.run()
    return tmp_path / "trained", nets_of(trainer)


def test_learners_begin_with_actor_critic_and_normalizer(trained, tmp_path):
    run, expected = trained
    initial = nets_of(Trainer(config(init_from=str(run)), tmp_path / "next"))
    assert initial.keys() == expected.keys() == {"adversary", "agent"}
    for name, net in expected.items():
        assert any("critic" in key for key in net)
        assert all(torch.equal(initial[name][key], value) for key, value in net.items())


def test_optimizer_and_steps_begin_anew(trained, tmp_path):
    trainer = Trainer(config(init_from=str(trained[0])), tmp_path / "next")
    assert trainer.steps == 0
    learner = trainer.assignments["agent"].learner
    assert learner.steps == 0
    assert not learner.optimizer.state


def test_another_algorithm_takes_the_weights(trained, tmp_path):
    """The target policy of APPO begins as the actor."""
    initial = nets_of(Trainer(config(algorithm="appo", init_from=str(trained[0])), tmp_path / "next"))["agent"]
    for key, value in trained[1]["agent"].items():
        assert torch.equal(initial[key], value)
        if key.startswith("actor."):
            assert torch.equal(initial[f"target.{key}"], value)


@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_target_networks_of_the_source_are_left_out(algorithm, tmp_path):
    source = Trainer(config(algorithm="appo"), tmp_path / "appo")
    source.run()
    nets = nets_of(Trainer(config(algorithm=algorithm, init_from=str(tmp_path / "appo")), tmp_path / "next"))
    assert all(torch.equal(nets_of(source)["agent"][key], value) for key, value in nets["agent"].items())


def test_resumed_training_does_not_begin_again(trained, tmp_path):
    half = config(init_from=str(trained[0]))
    Trainer(half, tmp_path / "next").run()
    saved = checkpoint.load(tmp_path / "next")
    resumed = Trainer(dataclasses.replace(half, total_steps=128), tmp_path / "next", saved)
    for name, net in nets_of(resumed).items():
        assert all(torch.equal(saved.state[f"learner.{name}.net.{key}"], value) for key, value in net.items())
    assert not torch.equal(nets_of(resumed)["agent"]["actor.body.0.weight"], trained[1]["agent"]["actor.body.0.weight"])


def test_policies_of_the_zoo_are_taken(tmp_path):
    learner = {"hidden_sizes": (64, 64)}
    initial = nets_of(Trainer(config("CartPole-v1", learner=learner, init_from="zoo:cartpole-ppo"), tmp_path / "run"))
    policy = checkpoint.load(checkpoint.zoo_folder("cartpole-ppo")).policy("agent").net.state_dict()
    assert all(torch.equal(initial["agent"][key], value) for key, value in policy.items())


def test_single_policy_is_that_of_all_learners(tmp_path):
    shared = config("SimpleSpread-v0", sharing="all")
    Trainer(shared, tmp_path / "shared").run()
    separate = Trainer(
        config("SimpleSpread-v0", sharing="agent", init_from=str(tmp_path / "shared")), tmp_path / "apart"
    )
    nets = list(nets_of(separate).values())
    assert len(nets) == 3
    assert all(torch.equal(net["actor.body.0.weight"], nets[0]["actor.body.0.weight"]) for net in nets)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"init_from": "nowhere"}, CheckpointError, "nowhere: expected a checkpoint"),
        ({"init_from": "RUN", "learner": {**SMALL, "hidden_sizes": (8,)}}, ConfigError, "expected shape"),
        ({"init_from": "RUN", "env_id": "SimpleSpread-v0", "sharing": "agent"}, CheckpointError, "adversary"),
    ],
)
def test_weights_that_do_not_fit_are_refused(trained, tmp_path, changes, error, message):
    changes = {name: str(trained[0]) if value == "RUN" else value for name, value in changes.items()}
    with pytest.raises(error, match=message):
        Trainer(config(**changes), tmp_path / "next")
    assert not (tmp_path / "next").exists()


@pytest.mark.usefixtures("no_curves")
def test_commands_record_the_whole_path(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = ["SimpleTag-v0", "--init-from", "trained", "--total-steps", "64", "--num-envs", "4", "--no-video"]
    argv += ["--learner.rollout-length", "8", "--learner.hidden-sizes", "16", "--eval-episodes", "0", "--device", "cpu"]
    assert train_command([*argv, "--run-dir", "next"]) == 0
    recorded = checkpoint.load(Path("next")).config["init_from"]
    assert recorded == str(checkpoint.find(trained[0]))
