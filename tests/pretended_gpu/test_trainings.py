"""Trainings on the pretended GPU, with captured rollouts, equal those on the CPU bit for bit."""

import pytest

from pretended_gpu.runs import (
    DEVICES,
    FEW_STEPS,
    SECOND,
    assert_equal_runs,
    assert_equal_states,
    configuration,
    on_host,
    train,
)
from trainers.algorithms.registry import ALGORITHMS
from trainers.runner.trainer import Trainer

LEARNERS = ("ppo", "appo", "a2c", "impala", "pg")
ON_POLICY = (*LEARNERS, "ippo", "mappo")  # these two are PPO with other defaults
GRU, STATE = {"network": "gru"}, {"critic_input": "state"}


def cnn(*image):
    """Return the settings of a small convolutional network."""
    return {"network": "cnn", "image": image, "conv_filters": (4,)}


CASES = [
    # every on-policy algorithm, and every learner with every network and every input of the critic that it accepts
    *(("SimpleTag-v0", name, {}) for name in ON_POLICY),
    *(("SimpleTag-v0", name, GRU) for name in LEARNERS),
    *(("SimpleTag-v0", name, STATE) for name in ("ppo", "appo", "a2c")),
    ("SimpleTag-v0", "ppo", STATE | GRU),
    *(("TicTacToe-v0", name, cnn(2, 3, 3)) for name in LEARNERS),
    # kinds of environments: one agent, truncation, agents that leave, turns, cards, continuous actions
    *(("CartPole-v1", name, {}) for name in ("ppo", "a2c", "dqn")),
    *(("Pendulum-v1", name, {}) for name in ("ppo", "a2c", "sac")),
    *(("TagContinuous-v0", name, {}) for name in ("ppo", "mappo", "sac")),
    ("TagContinuous-v0", "ppo", GRU),
    *(("TicTacToe-v0", name, {}) for name in ("ppo", "mappo", "dqn")),
    *(("LeducPoker-v0", name, {}) for name in LEARNERS),
    ("LeducPoker-v0", "ppo", GRU),
    ("SimpleSpeakerListener-v0", "ppo", {}),
    ("SimpleSpeakerListener-v0", "maddpg", {}),
    # every algorithm with a replay buffer
    *(("SimpleTag-v0", name, {}) for name in ("dqn", "iql", "vdn", "qmix", "maddpg", "matd3", "sac", "masac")),
    *(("SimpleSpread-v0", name, {"network": "gru", "window": 4}) for name in ("vdn", "qmix")),
    *(("Pendulum-v1", name, {}) for name in ("td3", "ddpg")),
    *(("Pendulum-v1", name, cnn(1, 1, 3)) for name in ("td3", "ddpg", "sac")),
    *(("SimpleSpread-v0", name, cnn(2, 3, 3)) for name in ("dqn", "qmix", "vdn", "maddpg", "matd3", "masac")),
    ("CartPole-v1", "dqn", {"prioritized": True, "n_step": 3, "dueling": True, "double": True}),
    ("SimpleTag-v0", "ppo", {"target_kl": 0.01, "normalize_obs": True, "entropy_coef_final": 0.0}),
]


def name_of(case):
    """Return a case in the name of its test."""
    env_id, algorithm, learner = case
    return "-".join([env_id, algorithm, *(f"{name}={value}" for name, value in learner.items())])


QUICK = ("CartPole-v1", "ppo", FEW_STEPS)
ALL = [
    pytest.param(case, marks=() if case == QUICK else pytest.mark.slow, id=name_of(case)) for case in (QUICK, *CASES)
]


@pytest.mark.parametrize("case", ALL)
def test_training_equals_the_cpu(case, gpu, tmp_path):
    """Rollouts are captured; evaluations and checkpoints are part of the run."""
    env_id, algorithm, learner = case
    expected = train(configuration(env_id, algorithm, "cpu", learner), tmp_path / "cpu")
    assert not gpu.synchronizations
    for device in DEVICES if case == CASES[0] else SECOND:
        with gpu.observe() as events:
            actual = train(configuration(env_id, algorithm, device, learner), tmp_path / device)
        assert_equal_runs(expected, actual)
        assert sum("collector.py" in launch.location for launch in events.graph_launches) == 4
        assert gpu.current_device == 0


def test_cases_have_every_algorithm():
    assert {algorithm for _, algorithm, _ in CASES} == ALGORITHMS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_rollout_without_a_graph_equals_the_cpu_and_does_not_wait(name, gpu, tmp_path):
    env_id, learner = next((env_id, learner) for env_id, algorithm, learner in CASES if algorithm == name)
    trainers = [
        Trainer(configuration(env_id, name, device, learner, cuda_graph=False), tmp_path / device)
        for device in ("cpu", *(DEVICES if name == "ppo" else SECOND))
    ]
    for _ in range(3):
        for trainer in trainers:
            with gpu.observe() as events:
                trainer.collector._rollout()
            assert not events.synchronizations
            assert not events.graph_launches
            trainer.core.raise_pending_errors()
            trainer.learners.update(1, str)
    expected, *actual = (on_host(trainer.state_dict()) for trainer in trainers)
    for state in actual:
        assert_equal_states(expected, state)
    for trainer in trainers:
        trainer.log.close()
