"""Gradient steps in kernels, compared with PyTorch's."""

import dataclasses

import pytest
import torch

from gpu_envs.errors import ConfigError
from trainers.algorithms import algorithm_specs
from trainers.algorithms.on_policy.kernel_engine import KernelEngine, unprofitable, unprofitable_rollouts
from trainers.algorithms.on_policy.torch_engine import TorchEngine
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.agent_assignment import assign_policies
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

SMALL_TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 7}
CASES = {
    "discrete": ("SimpleSpread-v0", "ppo", {"max_cycles": 9}, {}),
    "turns": ("KuhnPoker-v0", "ppo", {}, {"clip_range_vf": 0.05, "normalize_advantage": False}),
    "leaving": ("TagContinuous-v0", "ppo", SMALL_TAG, {"activation": "relu", "normalize_obs": False}),
    "box": ("Pendulum-v1", "a2c", {}, {"optimizer": "adam", "max_grad_norm": 1e9}),
    "squashed box": ("Pendulum-v1", "ppo", {}, {"squash": True, "clip_range": 0.01}),
    "rmsprop": ("CartPole-v1", "a2c", {}, {"activation": "relu"}),
    "one layer": ("CartPole-v1", "ppo", {}, {"hidden_sizes": (5,), "num_minibatches": 7}),
    "three layers": ("CartPole-v1", "ppo", {}, {"hidden_sizes": (9, 17, 6), "gamma": 0.5, "reward_scale": 3.0}),
}
"""Name of the case -> environment, algorithm, settings of the environment and of the learner."""
QUICK = ("discrete", "turns", "box")
BOTH = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]


def config_of(case, engine="torch", **settings):
    env_id, algorithm, env, learner = CASES[case]
    learner = {"hidden_sizes": (8, 8), "rollout_length": 16, **learner}
    arguments = {"num_envs": 5, "total_steps": 800, "eval_episodes": 0, "engine": engine, "seed": 4, **settings}
    return TrainConfig(
        env_id, env, algorithm=algorithm, learner=algorithm_specs.find(algorithm).settings(**learner), **arguments
    )


def collected(config):
    """Return learners with a rollout that PyTorch's policies have played."""
    core = make_train_core(config, config.num_envs, config.seed)
    learners = LearnerGroup(config, core)
    collector = Collector(config, core, learners)
    collector.kernels = None
    collector.collect()
    return learners


@pytest.mark.parametrize("case", BOTH)
def test_update_equals_that_of_torch(case):
    """Metrics, weights and moments of the optimizer, after all epochs."""
    groups = [collected(config_of(case, engine)) for engine in ("torch", "kernel")]
    for group, kind in zip(groups, (TorchEngine, KernelEngine), strict=True):
        assert all(isinstance(a.learner.engine, kind) for a in group.assignments.values())
    metrics = [group.update(1, str) for group in groups]
    assert metrics[0].keys() == metrics[1].keys()
    for name, value in metrics[0].items():
        assert metrics[1][name] == pytest.approx(value, rel=2e-4, abs=2e-5), name
    states = [group.state_dict() for group in groups]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            torch.testing.assert_close(states[1][name], value, rtol=2e-4, atol=2e-5, msg=name)


@pytest.mark.slow
def test_update_on_large_minibatches_equals_that_of_torch():
    """2,560 rows, which are more than eight chunks."""
    groups = []
    for engine in ("torch", "kernel"):
        config = config_of("one layer", engine, num_envs=160, total_steps=5_120)
        learner = dataclasses.replace(config.learner, num_minibatches=1)
        groups.append(collected(dataclasses.replace(config, learner=learner)))
        groups[-1].update(1, str)
    states = [group.state_dict() for group in groups]
    for name, value in states[0].items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            torch.testing.assert_close(states[1][name], value, rtol=2e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize(
    "case", ["discrete", "turns", *(pytest.param(name, marks=pytest.mark.slow) for name in ("box", "leaving"))]
)
def test_update_is_equal_for_any_number_of_threads(case, monkeypatch):
    """Bit for bit: one launch per epoch on one thread, and shared minibatches on several."""
    states = []
    for threads in (1, 3):
        monkeypatch.setattr(
            "trainers.algorithms.on_policy.actor_critic_learner.available_cores", lambda count=threads: count
        )
        monkeypatch.setattr(
            "gpu_envs.runtime.thread_pool.ThreadingHeuristic.parallel", lambda self, count=threads: count > 1
        )
        learners = collected(config_of(case, "kernel"))
        learners.update(1, str)
        states.append(learners.state_dict())
    for name, value in states[0].items():
        assert value == states[1][name] if not isinstance(value, torch.Tensor) else torch.equal(value, states[1][name])


@pytest.mark.parametrize("case", ["turns", pytest.param("box", marks=pytest.mark.slow)])
def test_resumed_run_equals_the_uninterrupted_one(case, tmp_path):
    config = config_of(case, "kernel", total_steps=480, checkpoint_interval=2, keep_last_checkpoints=9)
    Trainer(config, tmp_path / "whole").run()
    middle = checkpoint.load(tmp_path / "whole" / "checkpoints" / "000000002")
    Trainer(config, tmp_path / "parts", resume=middle).run()
    uninterrupted, parts = (checkpoint.load(tmp_path / name).state for name in ("whole", "parts"))
    assert uninterrupted.keys() == parts.keys()
    for name, value in uninterrupted.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, parts[name]), name


@pytest.mark.parametrize("engines", [("torch", "kernel"), ("kernel", "torch")])
def test_checkpoint_moves_between_engines(engines, tmp_path):
    first, second = (config_of("discrete", engine, total_steps=160) for engine in engines)
    Trainer(first, tmp_path / "run").run()
    saved = checkpoint.load(tmp_path / "run")
    resumed = Trainer(dataclasses.replace(second, total_steps=320), tmp_path / "run", resume=saved)
    state = resumed.learners.state_dict()
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, saved.state[name]), name
    resumed.run()
    assert resumed.steps == 320


def test_kernel_engine_refuses_a_recurrent_network():
    config = config_of("discrete", "kernel")
    config = dataclasses.replace(config, learner=dataclasses.replace(config.learner, network="gru"))
    with pytest.raises(ConfigError, match="engine = 'kernel': network: expected 'mlp', got 'gru'; use engine = 'auto'"):
        assign_policies(config, make_train_core(config, 2, 0))


def test_kernel_engine_refuses_a_critic_of_states():
    config = config_of("discrete", "kernel")
    config = dataclasses.replace(config, learner=dataclasses.replace(config.learner, critic_input="state"))
    with pytest.raises(ConfigError, match="critic_input: expected 'obs', got 'state'"):
        assign_policies(config, make_train_core(config, 2, 0))


@pytest.mark.parametrize(("steps", "kind"), [(800, TorchEngine), (10**9, KernelEngine)])
def test_auto_compiles_kernels_for_long_trainings_only(steps, kind):
    config = config_of("discrete", "auto", total_steps=steps)
    assignments = assign_policies(config, make_train_core(config, 2, 0))
    assert all(isinstance(assignment.learner.engine, kind) for assignment in assignments.values())


def test_auto_takes_kernels_for_rollouts_only_on_a_gpu():
    """Gradients in kernels were not measured there."""
    learner = collected(config_of("discrete")).assignments["agent"].learner
    arguments, spec = (learner.net, learner.config), dataclasses.replace(learner.learner_spec, total_steps=10**9)
    assert unprofitable(*arguments, spec) == ""
    assert unprofitable_rollouts(*arguments, spec) == "PyTorch's gradients take most of the time"
    on_gpu = dataclasses.replace(spec, device="cuda")
    assert unprofitable(*arguments, on_gpu) == "gradients in kernels are not measured on cuda"
    assert unprofitable_rollouts(*arguments, on_gpu) == ""
    short = dataclasses.replace(on_gpu, total_steps=100)
    assert unprofitable(*arguments, short) == unprofitable_rollouts(*arguments, short) == "a short training"


@pytest.mark.parametrize("case", ["turns", pytest.param("leaving", marks=pytest.mark.slow)])
def test_update_with_fixed_shapes_equals_the_usual_one(case):
    """Invalid rows are masked instead of removed; one minibatch, because the minibatches of both differ."""
    states = []
    for fixed_shapes in (False, True):
        config = config_of(case, "kernel")
        config = dataclasses.replace(config, learner=dataclasses.replace(config.learner, num_minibatches=1))
        learners = collected(config)
        for assignment in learners.assignments.values():
            assignment.learner.fixed_shapes = fixed_shapes
        learners.update(1, str)
        states.append(learners.state_dict())
    for name, value in states[0].items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            torch.testing.assert_close(states[1][name], value, rtol=2e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize("name", ["valid", "terminated", "truncated", "reward"])
def test_update_reads_a_buffer_that_was_replaced(name):
    """Launches are recorded with addresses: a replaced buffer has to give new ones."""
    learners = [collected(config_of("turns", "kernel")) for _ in range(2)]
    for number, group in enumerate(learners):
        engine = group.assignments["player"].learner.engine
        rollout = engine.rollout
        if number:
            engine.batch(group.reducer, False)  # records the launches
        changed = rollout.reward * 2.0 if name == "reward" else getattr(rollout, name) & (rollout.log_prob < -0.7)
        setattr(rollout, name, changed.clone())
    batches = [group.assignments["player"].learner.engine.batch(group.reducer, False) for group in learners]
    assert torch.equal(batches[0]["rows"], batches[1]["rows"])
    assert torch.equal(batches[0]["returns"], batches[1]["returns"])


def test_kernel_engine_refuses_another_precision():
    config = TrainConfig("CartPole-v1", engine="kernel", precision="bfloat16")
    with pytest.raises(ConfigError, match="expected precision 'float32', got 'bfloat16'"):
        assign_policies(config, make_train_core(config, 2, 0))
