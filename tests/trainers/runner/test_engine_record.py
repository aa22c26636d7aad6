"""The engine that "auto" chose is recorded, and kept by a resumed run."""

import dataclasses
import json

import pytest
import torch

from trainers.algorithms.on_policy import actor_critic_learner, kernel_engine
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.cli.train_seeds import engine_text
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.learner_group import LearnerGroup
from trainers.runner.multi_seed import train_seeds
from trainers.runner.train_result import ENGINE, load_result
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

TWO = TrainConfig(
    "CartPole-v1",
    num_envs=8,
    total_steps=2 * 64,
    eval_episodes=0,
    learner=PPOConfig(rollout_length=8, hidden_sizes=(8,), num_epochs=1),
)
FOUR = dataclasses.replace(TWO, total_steps=4 * 64)


@pytest.fixture
def cheap(monkeypatch):
    """Set whether "auto" takes kernels for the small trainings of this file."""

    def choose(kernels):
        monkeypatch.setattr(kernel_engine, "MIN_TRAINING_OPERATIONS", 0 if kernels else 10**30)

    return choose


@pytest.mark.parametrize(("first", "other"), [("kernel", "torch"), ("torch", "kernel")])
def test_resumed_run_keeps_its_engine(first, other, cheap, tmp_path):
    cheap(first == "kernel")
    trainer = Trainer(TWO, tmp_path / "run")
    trainer.save_last()
    trainer.close()
    assert trainer.result().engines == {"agent": first}
    saved = checkpoint.load(tmp_path / "run")
    assert load_result(saved.path, "cpu").engines == {"agent": first}
    cheap(other == "kernel")
    engines = {}
    for name, config, resume in [
        ("kept", FOUR, saved),
        ("given", dataclasses.replace(FOUR, engine=other), saved),
        ("not recorded", FOUR, dataclasses.replace(saved, state=without_engines(saved.state))),
        ("other device", FOUR, dataclasses.replace(saved, config={**saved.config, "device": "cuda:1"})),
    ]:
        resumed = Trainer(config, tmp_path / name, resume)
        resumed.close()
        engines[name] = resumed.engines["agent"]
        assert resumed.learners.use_kernels == (engines[name] == "kernel")
    assert engines == {"kept": first, "given": other, "not recorded": other, "other device": other}


def test_resumed_run_keeps_rollouts_in_kernels_with_gradients_of_pytorch(cheap, monkeypatch, tmp_path):
    """Its steps are those of an uninterrupted run; later choices of "auto" would be others."""
    cheap(True)
    config = dataclasses.replace(FOUR, checkpoint_interval=2, keep_last_checkpoints=9)
    with monkeypatch.context() as patch:
        patch.setattr(actor_critic_learner, "unprofitable", lambda *_: "as on a GPU")
        patch.setattr(actor_critic_learner, "unprofitable_rollouts", lambda *_: "")
        trainer = Trainer(config, tmp_path / "whole")
    trainer.run()
    assert trainer.engines == {"agent": "rollouts kernel, gradients torch"}
    assert engine_text(trainer.engines, trainer.reasons_for_torch) == "rollouts kernel, gradients torch (as on a GPU)"
    half = checkpoint.load(tmp_path / "whole" / "checkpoints" / "000000002")
    resumed = Trainer(config, tmp_path / "resumed", half)
    assert resumed.collector.kernels is not None
    resumed.run()
    assert resumed.engines == {"agent": "rollouts kernel, gradients torch"}
    assert engine_text(resumed.engines, resumed.reasons_for_torch) == "rollouts kernel, gradients torch (as recorded)"
    states = [checkpoint.load(tmp_path / name).state for name in ("whole", "resumed")]
    for name, value in states[0].items():
        if isinstance(value, torch.Tensor) and name.startswith("learner"):
            assert torch.equal(states[1][name], value), name


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"decide_every": {"agent": 2}}, "agent decides every 2 steps"),
        ({"num_actors": 1, "actor_device": "cuda:0"}, "actors on cuda:0"),
    ],
)
def test_engine_names_what_plays_rollouts_step_by_step(change, reason):
    config = dataclasses.replace(TWO, engine="kernel")
    core = make_train_core(config, 8, 0)
    config = dataclasses.replace(config, **change)
    group = LearnerGroup(config, core)
    assert group.engines == {"agent": "rollouts torch, gradients kernel"}
    assert engine_text(group.engines, group.reasons_for_torch) == f"rollouts torch, gradients kernel ({reason})"


def without_engines(state):
    assert any(name.startswith(ENGINE) for name in state)
    return {name: value for name, value in state.items() if not name.startswith(ENGINE)}


def test_summary_of_several_seeds_holds_the_engines(tmp_path):
    train_seeds(TWO, 2, tmp_path)
    runs = json.loads((tmp_path / "summary.json").read_text())["runs"]
    assert [run["engines"] for run in runs] == [{"agent": "torch"}] * 2


def test_engines_are_printed_by_learner_where_they_differ():
    assert engine_text({"a": "kernel", "b": "kernel"}, {"a": "", "b": ""}) == "engine kernel"
    assert engine_text({"a": "torch", "b": "torch"}, {"a": "short", "b": "short"}) == "engine torch (short)"
    assert engine_text({"a": "kernel", "b": "torch"}, {"a": "", "b": "wide"}) == "engines a=kernel; b=torch (wide)"
