"""For every method of every learner: an override takes effect under `auto`, since it is called or PyTorch is taken."""

import importlib
import inspect

import pytest

from trainers.algorithms import algorithm_specs
from trainers.algorithms.algorithm_specs import ALGORITHMS
from trainers.algorithms.learner import ACTING, replaced_method
from trainers.algorithms.on_policy.actor_critic_learner import ActorCriticLearner
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer

FEW = {"rollout_length": 8, "hidden_sizes": (8, 8), "learning_starts": 16, "batch_size": 8, "replay_size": 64}
LEARNER = "trainers.algorithms.on_policy.actor_critic_learner"
KERNELS = ("ppo", "ippo", "a2c", "dqn", "iql", "td3", "ddpg", "sac")
"""Algorithms with kernels for the settings of this test."""


def counting(kind, name, called):
    """Return a method that notes its calls."""

    def method(self, *args, **settings):
        called.add(name)
        return getattr(kind, name)(self, *args, **settings)

    return method


def train(algorithm, engine, names, folder, monkeypatch):
    """Train with a subclass that overrides methods; return the learners, and the methods that were called."""
    spec = algorithm_specs.find(algorithm)
    module = importlib.import_module(f"trainers.algorithms.{spec.module}")
    called, kind = set(), spec.learner_type
    subclass = type("Mine", (kind,), {name: counting(kind, name, called) for name in names})
    settings = {name: value for name, value in FEW.items() if hasattr(spec.config_type, name)}
    settings |= {"optimizer": "adam"} if algorithm == "a2c" else {}
    env = {"max_cycles": 9, "continuous_actions": algorithm in ("td3", "ddpg")}
    config = TrainConfig(
        *("SimpleSpread-v0", env),
        algorithm=algorithm,
        learner=spec.settings(**settings),
        engine=engine,
        **{"num_envs": 4, "total_steps": 96, "eval_episodes": 0, "num_threads": 1},
    )
    with monkeypatch.context() as patch:
        patch.setattr(module, spec.learner, subclass)
        trainer = Trainer(config, folder)
        trainer.run()
    return [assignment.learner for assignment in trainer.learners.assignments.values()], called


@pytest.mark.parametrize(
    "algorithm", [pytest.param(name, marks=[] if name in ("ppo", "dqn") else pytest.mark.slow) for name in ALGORITHMS]
)
def test_override_of_every_method_takes_effect_under_auto(algorithm, tmp_path, monkeypatch):
    for place in ("on_policy.kernel_engine.MIN_TRAINING_OPERATIONS", "off_policy.kernel_acting.MIN_STEPS"):
        monkeypatch.setattr(f"trainers.algorithms.{place}", 0)
    kind = algorithm_specs.find(algorithm).learner_type
    methods = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("__")}
    (learner, *_), used = train(algorithm, "torch", methods, tmp_path / "torch", monkeypatch)
    assert {"act", "observe", "update"} <= used
    if "kernel_methods" not in dir(kind):
        assert algorithm not in KERNELS
        return
    computed = set(kind.kernel_methods)
    assert replaced_method(learner) or not computed
    if not replaced_method(kind(learner.config, learner.learner_spec)):
        for name in sorted(computed & methods):
            subclass = type("Mine", (kind,), {name: counting(kind, name, set())})
            assert replaced_method(subclass(learner.config, learner.learner_spec)).endswith(f".{name}, not Mine.{name}")
    (learner, *_), called = train(algorithm, "auto", used - computed, tmp_path / "auto", monkeypatch)
    assert (learner.reason_for_torch == "") == (algorithm in KERNELS)
    assert used - computed <= called
    if not isinstance(learner, ActorCriticLearner):
        return
    monkeypatch.setattr(f"{LEARNER}.unprofitable", lambda *_: "as on a GPU")
    monkeypatch.setattr(f"{LEARNER}.unprofitable_rollouts", lambda *_: "")
    (learner, *_), called = train(algorithm, "auto", used - set(ACTING), tmp_path / "rollouts", monkeypatch)
    assert learner.reason_for_torch
    assert (learner.kernel_policy() is None) == (algorithm in ("mappo", "happo", "hatrpo", "mat"))
    assert used - set(ACTING) <= called
    for name in ACTING:
        kind_of_user = type("Mine", (kind,), {name: counting(kind, name, set())})
        assert kind_of_user(learner.config, learner.learner_spec).kernel_policy() is None
