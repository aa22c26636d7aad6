"""The engine that "auto" chose is recorded, and kept by a resumed run."""

import dataclasses
import json

import pytest

from trainers.algorithms.on_policy import kernel_engine
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.cli.train_seeds import engine_text
from trainers.config.train_config import TrainConfig
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
    assert engine_text({"a": "kernel", "b": "torch"}, {"a": "", "b": "wide"}) == "engines a=kernel b=torch (wide)"
