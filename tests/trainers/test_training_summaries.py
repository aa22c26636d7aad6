"""Summaries of policies and trainings."""

import dataclasses
from pathlib import Path

import pytest

import gpu_envs
import trainers
from gpu_envs.utils.summaries import Summarized


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short training, and its trainer."""
    config = dataclasses.replace(
        trainers.preset("SimpleTag-v0", "cpu"), total_steps=800, num_envs=16, eval_episodes=0, num_threads=1
    )
    trainer = trainers.Trainer(config, tmp_path_factory.mktemp("runs") / "run")
    text = repr(trainer)
    trainer.run()
    return text, trainer, trainer.result()


def test_policies_show_spaces_network_and_device():
    policy = trainers.load_policy("zoo:pendulum-sac")
    facts = "observation=Box(3,), action=Box(-2, 2, (1,)), network=mlp 64-64, parameters=4,546, device=cpu"
    assert repr(policy) == f"<Policy: {facts}>"
    assert "<td" in policy._repr_html_()
    core = gpu_envs.make_core("SimpleTag-v0", 1, "cpu")
    scripted = trainers.ScriptedPolicy(core, "agent")
    assert repr(scripted) == "<ScriptedPolicy SimpleTag-v0: plays=agent, script=flee from the nearest, device=cpu>"


def test_training_shows_progress_and_policies(trained):
    text, trainer, result = trained
    start = "SimpleTag-v0: algorithm=ppo, steps="
    policies = "adversary: controls adversary, engine kernel; agent: controls agent, engine kernel>"
    policies = policies.replace("kernel", trainer.engines["agent"])
    assert text.startswith(f"<Trainer {start}0 of 800, worlds=16, device=cpu, run_dir=")
    assert repr(trainer).startswith(f"<Trainer {start}{trainer.steps:,} of 800")
    assert text.endswith(policies)
    assert repr(result).startswith(f"<TrainResult {start}{trainer.steps:,} of 800")
    assert repr(result).endswith(policies)
    assert ">run_dir<" in result._repr_html_()


def test_folder_of_a_run_can_be_text(trained, tmp_path):
    assert trainers.Trainer(trained[1].config, str(tmp_path / "run")).run_dir == tmp_path / "run"
    config = trained[1].config
    assert trainers.MultiSeedTrainer(config, 2, str(tmp_path / "runs")).run_dir == tmp_path / "runs"


def test_checkpoint_shows_its_place_and_not_its_tensors():
    text = repr(trainers.load_checkpoint(Path("zoo:simple-tag-ppo")))
    assert text.startswith("<Checkpoint SimpleTag-v0: algorithm=ppo, iteration=313, steps=1,001,600")
    assert len(text) < 300


def test_runs_of_several_seeds_show_every_seed(trained, tmp_path):
    config = dataclasses.replace(trained[1].config, total_steps=400)
    trainer = trainers.MultiSeedTrainer(config, 2, tmp_path / "runs")
    assert isinstance(trainer, Summarized)
    assert repr(trainer).endswith("seed 0: steps 0 of 400; seed 1: steps 0 of 400>")
    trainer.run()
